package main

import (
	"fmt"
	"strings"

	"github.com/ebb-agent/ebb/bench/result"
)

// line is a row of the table; a figure that was not taken is 0.
type line struct {
	name             string
	ebb, peer, limit float64
}

func (f figures) lines() []line {
	return []line{
		{"background, objects a second", f.Background, f.PeerBackground, f.LimitDelete},
		{"foreground", f.Foreground, f.PeerForeground, f.LimitDelete},
		{"orphan", f.Orphan, f.PeerOrphan, f.LimitPatch},
		{"background, with its default limits", f.Background, f.PeerDefault, 0},
		{"first dependent gone, ms", f.First, f.PeerFirst, 0},
		{"requests for each dependent", f.Requests, f.PeerRequests, 0},
		{"orphaned owner gone, s after its last dependent", f.Barrier, f.PeerBarrier, 0},
		{"memory with 100,000 objects, MiB", f.RSS, f.PeerRSS, 0},
		{"at most, while deleting, MiB", f.Peak, f.PeerPeak, 0},
		{"live heap for each object, bytes", f.Heap, 0, 0},
		{"from its start to the first deletion, s", f.Ready, f.PeerReady, 0},
		{"beside a type that cannot be listed, s", f.ReadyBroken, f.PeerReadyBroken, 0},
	}
}

// markdown is the table, for people in a terminal, too.
func (f figures) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %-47s | %8s | %23s | %12s |\n|%s|%s:|%s:|%s:|\n", "", "ebb", "kube-controller-manager", "no collector",
		strings.Repeat("-", 49), strings.Repeat("-", 9), strings.Repeat("-", 24), strings.Repeat("-", 13))
	for _, l := range f.lines() {
		fmt.Fprintf(&b, "| %-47s | %8s | %23s | %12s |\n", l.name, result.Figure(l.ebb), result.Figure(l.peer), result.Figure(l.limit))
	}
	return b.String()
}

// render writes the report's section from the cascade.json in a directory.
func render(results string) error {
	return result.Render(results, "cascade", func(f figures) string { return report + f.markdown() })
}

const report = `## Cascade: 5,000 dependents of one owner

ebb-controller and the garbage collector of the kube-controller-manager 1.36, one after the other on the same API server and etcd, all on the machine's
two cores; that is why nobody can be much faster than a client that only sends the requests ("no collector"). The peer's client limits are
lifted (10,000 requests a second) but in one row. Medians of three rounds in turn. ebb-controller runs with its own service account, the rights in deploy/manifests
and its flow schema, and one request for each object carries the preconditions that the peer reads the object for.

`
