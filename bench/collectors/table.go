package main

import (
	"fmt"

	"github.com/ebb-agent/ebb/bench/result"
)

// markdown returns the tables, which are also shown in a terminal.
func (f figures) markdown() string {
	table := func(head, columns []string, rows ...[2]string) string {
		all := [][]string{head}
		for _, r := range rows {
			cells := []string{r[0]}
			for _, c := range columns {
				cells = append(cells, result.Figure(f[c+"_"+r[1]]))
			}
			all = append(all, cells)
		}
		return result.Table(all)
	}
	heads, cascades := []string{"from an owner's DELETE to its dependent's end, ms", "alone", "beside"}, []string{"cascade_alone", "cascade_beside"}
	if f["cascade_first_day_p50_ms"] > 0 {
		heads, cascades = append(heads, "first day", "8 min later"), append(cascades, "cascade_first_day", "cascade_first_day_later")
	}
	return table([]string{"", "Pods", "Jobs", "CSRs"}, []string{"pods", "jobs", "csrs"},
		[2]string{"ebb, objects a second", "per_s"}, [2]string{"kube-controller-manager", "peer_per_s"},
		[2]string{"ebb as shipped", "shipped_per_s"}, [2]string{"kube-controller-manager, with its default limits", "peer_default_per_s"},
		[2]string{"ebb, requests for each", "requests_per_object"}, [2]string{"kube-controller-manager, requests for each", "peer_requests_per_object"},
		[2]string{"ebb, live heap for each beside the graph's, bytes", "heap_bytes_per_object"},
		[2]string{"ebb, from due to sent at half of its rate, p99, ms", "due_to_sent_p99_ms"},
	) + fmt.Sprintf("\nObjects that one of the two deleted, and the other did not: %.0f.\n\n", f["differences"]) +
		table([]string{"ebb-controller with all of these objects", "off", "observe"}, []string{"off", "observe"},
			[2]string{"from its start to ready, s", "ready_s"}, [2]string{"CPU time for that, s", "ready_cpu_s"},
			[2]string{"read from the API server for that, MiB", "ready_read_mib"},
			[2]string{"live heap, MiB", "heap_mib"}, [2]string{"memory, MiB", "rss_mib"},
		) + "\n" +
		table(heads, cascades,
			[2]string{"median", "p50_ms"}, [2]string{"99th percentile", "p99_ms"})
}

// text returns the section of the report.
func (f figures) text() string { return report + f.markdown() }

// render writes the section of the report from collectors.json in a directory.
func render(results string) error {
	return result.Render(results, "collectors", figures.text)
}

const report = `## Collectors: Pods, Jobs and CertificateSigningRequests that are due

ebb-controller's collectors and the kube-controller-manager's of 1.36, one after the other on the same API server and etcd, all on two cores; each with its audit log, by
which they are measured: the peer writes as many lines there as it sends requests. Nine of ten objects are due, all at once; the others must stay. Rates are from the first deletion to the last, medians of three rounds in turn, ebb's without
envelope and circuit breaker. "As shipped" and "with its default limits" are one round of 600 Pods, 600 Jobs or 300 requests. Jobs go foreground: their finalizers are the garbage collector's requests and count for neither. The cleaner of requests runs alone once its cache is filled, because the
kube-controller-manager starts it before that, and then every hour. Memory is measured with 50,000 Pods, 50,000 Jobs and 20,000 requests, none of them due.
"Beside" are 50,000 Pods that are due at once.

`
