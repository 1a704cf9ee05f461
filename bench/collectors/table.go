package main

import (
	"fmt"
	"strings"

	"github.com/ebb-agent/ebb/bench/result"
)

// markdown is the tables, for people in a terminal, too.
func (f figures) markdown() string {
	var b strings.Builder
	rule := func(first string, names ...string) {
		fmt.Fprintf(&b, "| %-52s |", first)
		for _, name := range names {
			fmt.Fprintf(&b, " %8s |", name)
		}
		fmt.Fprintf(&b, "\n|%s|%s\n", strings.Repeat("-", 54), strings.Repeat("---------:|", len(names)))
	}
	row := func(name, of string, columns ...string) {
		fmt.Fprintf(&b, "| %-52s |", name)
		for _, c := range columns {
			fmt.Fprintf(&b, " %8s |", result.Figure(f[c+"_"+of]))
		}
		b.WriteString("\n")
	}
	rule("", "Pods", "Jobs", "CSRs")
	for _, r := range [][2]string{
		{"ebb, objects a second", "per_s"}, {"kube-controller-manager", "peer_per_s"}, {"kube-controller-manager, with its default limits", "peer_default_per_s"},
		{"ebb, requests for each", "requests_per_object"}, {"kube-controller-manager, requests for each", "peer_requests_per_object"},
		{"ebb, live heap for each beside the graph's, bytes", "heap_bytes_per_object"}, {"ebb, from due to sent at half of its rate, p99, ms", "due_to_sent_p99_ms"},
	} {
		row(r[0], r[1], "pods", "jobs", "csrs")
	}
	fmt.Fprintf(&b, "\nObjects that one of the two deleted, and the other did not: %.0f.\n\n", f["differences"])
	rule("ebb-controller with all of these objects", "off", "observe")
	for _, r := range [][2]string{
		{"from its start to ready, s", "ready_s"}, {"CPU time for that, s", "ready_cpu_s"}, {"read from the API server for that, MiB", "ready_read_mib"},
		{"live heap, MiB", "heap_mib"}, {"memory, MiB", "rss_mib"},
	} {
		row(r[0], r[1], "off", "observe")
	}
	b.WriteString("\n")
	rule("from an owner's DELETE to its dependent's end, ms", "alone", "beside")
	row("median", "p50_ms", "cascade_alone", "cascade_beside")
	row("99th percentile", "p99_ms", "cascade_alone", "cascade_beside")
	return b.String()
}

// render writes the report's section from the collectors.json in a directory.
func render(results string) error {
	return result.Render(results, "collectors", func(f figures) string { return report + f.markdown() })
}

const report = `## Collectors: Pods, Jobs and CertificateSigningRequests that are due

ebb-controller's collectors and the kube-controller-manager's of 1.36, one after the other on the same API server and etcd, all on two cores; each with its audit log, by
which they are measured. Nine of ten objects are due, all at once; the others must stay. Rates are from the first deletion to the last, medians of five rounds in turn, ebb's without
envelope. Jobs go foreground: their finalizers are the garbage collector's requests and count for neither. The cleaner of requests runs alone once its cache is filled, because the
kube-controller-manager starts it before that, and then every hour. Memory is measured with 50,000 Pods, 50,000 Jobs and 20,000 requests, none of them due.
"Beside" are 50,000 Pods that are due at once.

`
