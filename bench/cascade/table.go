package main

import (
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/policy/gc"
)

// table formats a head and rows.
func table(head []string, rows ...[]string) string {
	return result.Table(append([][]string{head}, rows...))
}

func rate(name string, of map[string]measured, contenders ...string) []string {
	row := []string{name}
	for _, c := range contenders {
		row = append(row, of[c].PerSecond.String())
	}
	return row
}

func row(name string, values ...float64) []string {
	cells := []string{name}
	for _, v := range values {
		cells = append(cells, result.Figure(v))
	}
	return cells
}

// markdown returns the tables, which are also shown in a terminal. A figure that was not taken is
// "".
func (f figures) markdown() string {
	best := []string{ebbBest, peerFast, peerBest, client}
	of := func(policy gc.Policy, field func(measured) float64) (values []float64) {
		for _, c := range best {
			values = append(values, field(f.Best[policy][c]))
		}
		return values
	}
	others := func(m measured) float64 { return m.Others }
	requests := func(m measured) float64 { return m.Requests }
	return table([]string{"as shipped, background, objects a second", "ebb", "kube-controller-manager"},
		rate("600 dependents", f.Few, ebbShipped, peerShipped), rate("5,000 dependents", f.Shipped, ebbShipped, peerShipped),
		row("others wait meanwhile, 99 of 100, ms", f.Few[ebbShipped].Others, f.Few[peerShipped].Others),
	) + "\n" + table([]string{"both at their best, 5,000 dependents", "ebb", "kube-controller-manager", "with 100 workers", "no collector"},
		rate("background, objects a second", f.Best[gc.Background], best...),
		rate("foreground", f.Best[gc.Foreground], best...),
		rate("orphan", f.Best[gc.Orphan], best...),
		row("requests for each dependent, background", of(gc.Background, requests)...),
		row("requests for each dependent, foreground", of(gc.Foreground, requests)...),
		row("requests for each dependent, orphan", of(gc.Orphan, requests)...),
		row("first dependent gone, ms", of(gc.Background, func(m measured) float64 { return m.First })...),
		row("orphaned owner gone, s after its last dependent", of(gc.Orphan, func(m measured) float64 { return m.Behind })...),
		row("others wait meanwhile, 99 of 100, ms; alone: "+result.Figure(f.OthersAlone), of(gc.Background, others)...),
	) + "\n" + table([]string{"etcd waits for its disk, background", "ebb as shipped", "ebb", "kube-controller-manager", "with 100 workers", "no collector"},
		rate("5,000 dependents, objects a second", f.Fsync, append([]string{ebbShipped}, best...)...),
	) + "\n" + table([]string{"", "ebb as shipped", "kube-controller-manager as shipped", "without client limits"},
		row("memory with 100,000 objects, MiB", f.Memory[ebbShipped].Rest, f.Memory[peerShipped].Rest, f.Memory[peerFast].Rest),
		row("at most, while deleting, MiB", f.Memory[ebbShipped].Peak, f.Memory[peerShipped].Peak, f.Memory[peerFast].Peak),
		row("live heap for each object, bytes", f.Heap),
		row("from its start to the first deletion, s", f.Ready, 0, f.PeerReady),
		row("beside a type that cannot be listed, s", f.ReadyBroken, 0, f.PeerReadyBroken),
	)
}

// text returns the function that makes the section of the figures that were asked for.
func text(o options) func(figures) string {
	if o.others {
		return func(f figures) string { return shapesReport + f.shapesMarkdown() }
	}
	return func(f figures) string { return report + f.markdown() }
}

// render writes the section of the report from the result's file.
func render(o options) error {
	name := "cascade"
	if o.others {
		name = "shapes"
	}
	return result.Render(o.Results, name, text(o))
}

const report = `## Cascade: dependents of one owner

ebb-controller and the kube-controller-manager, one after the other on the same API server and etcd, all on the machine's two cores; that is why nobody can be
much faster than a client that only sends the requests ("no collector"). The API server has no audit log. Rates are medians, and in parentheses the least and the most.

"As shipped" is ebb-controller as the chart configures it but for mode: enforce, and the kube-controller-manager with all its controllers, both with leader election and their default limits.
The peer sends 20 requests a second then, after a burst of 30: that is why it gets 600 dependents. The 5,000 are within ebb's envelope (10,000 at once) and circuit breaker (50,000 in ten minutes).
"At their best" is ebb-controller alone, without envelope and circuit breaker, and the peer with no controller but its garbage collector and without client limits, with 20 workers, as it has by default, and with 100.

While the peer as shipped deletes, its memory is that with 600 dependents in background; the others have deleted 5,000 in each of the three ways.
"Others" is somebody who reads one object from etcd every 20 ms.

`
