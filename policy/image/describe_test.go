package image

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// How scenarios print the results of Ask, Why and Account.

func (sc *scenario) describeAsked(a Asked) string {
	return fmt.Sprintf("asked: frees %s, at most %s\n", a.Frees, a.Most) + sc.describe(a.Plan)
}

func (s Size) String() string { return fmt.Sprintf("%d bytes, %d inodes", s.Bytes, s.Inodes) }

func (sc *scenario) describeWhy(id string) string {
	e, ok := Why(sc.s, id, sc.now)
	if !ok {
		return "no such image\n"
	}
	a, _ := AccountOf(sc.s.Graph, sc.s.Images, id)
	var out strings.Builder
	verb := "stays"
	if e.Goes {
		verb = "goes"
	}
	fmt.Fprintf(&out, "%s %s: %s: %s\n", e.ImageID, verb, e.Reason, e.Detail)
	fmt.Fprintf(&out, "place %d of %d; alone frees %s; in its turn %s; in all %s\n", e.Place, e.Of, a.Own, e.InTurn, a.Total)
	for _, r := range e.Rules {
		fmt.Fprintf(&out, "  %-14s %-13s  %s%s\n", r.Reason, r.State, r.Text, sc.in(r.Changes, ", changes in "))
	}
	return out.String()
}

func (sc *scenario) in(t time.Time, prefix string) string {
	if t.IsZero() {
		return ""
	}
	return prefix + t.Sub(sc.now).String()
}

func (sc *scenario) describeAccount(a Accounts) string {
	var out strings.Builder
	names := map[NodeID]string{}
	for _, name := range slices.Sorted(maps.Keys(sc.nodes)) {
		names[sc.nodes[name]] = name
	}
	line := func(l Entry) {
		fmt.Fprintf(&out, "  %d %s: %s", l.Count, l.By, l.Size)
		if !l.Oldest.IsZero() {
			fmt.Fprintf(&out, ", for up to %v", sc.now.Sub(l.Oldest))
		}
		if l.Unmeasured > 0 {
			fmt.Fprintf(&out, ", %d never measured", l.Unmeasured)
		}
		for _, id := range l.Nodes {
			fmt.Fprintf(&out, " %s", names[id])
		}
		fmt.Fprintln(&out)
	}
	for _, i := range a.Images {
		fmt.Fprintf(&out, "%s: own %s; shared %s; total %s; kubelet %d bytes", i.ImageID, i.Own, i.Shared, i.Total, i.NominalBytes)
		if i.Unmeasured > 0 {
			fmt.Fprintf(&out, "; %d layers never measured", i.Unmeasured)
		}
		fmt.Fprintln(&out)
	}
	fmt.Fprintf(&out, "images hold %s; kubelet %d bytes\nothers\n", a.Held, a.NominalBytes)
	for _, l := range a.Others {
		line(l)
	}
	fmt.Fprintln(&out, "nobody")
	for _, l := range a.Nobody {
		line(l)
	}
	if a.Empty.Count > 0 {
		line(a.Empty)
	}
	fmt.Fprintf(&out, "total %s\n", a.Total)
	return out.String()
}
