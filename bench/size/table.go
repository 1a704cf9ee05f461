package main

import (
	"fmt"
	"strings"

	"github.com/ebb-agent/ebb/bench/result"
)

// rows of the table.
var rows = []struct {
	name string
	of   func(measured) float64
}{
	{"memory at rest, MiB", func(m measured) float64 { return m.Rest }},
	{"at most, while starting, MiB", func(m measured) float64 { return m.Start }},
	{"at most, in a cascade of a twentieth, MiB", func(m measured) float64 { return m.Cascade }},
	{"heap for each object, bytes", func(m measured) float64 { return m.Heap }},
	{"from its start to ready, s", func(m measured) float64 { return m.Ready }},
	{"CPU time for that, s", func(m measured) float64 { return m.ReadyCPU }},
	{"read from the API server for that, MiB", func(m measured) float64 { return m.ReadyRead }},
	{"the cascade, objects a second", func(m measured) float64 { return m.PerSecond }},
	{"read from the API server for that, MiB", func(m measured) float64 { return m.Read }},
}

// markdown is the table, for people in a terminal, too.
func (f figures) markdown() string {
	var b strings.Builder
	head := func(s stage, who string) string { return fmt.Sprintf("%s, %d", who, s.Objects) }
	columns := []struct {
		name string
		m    *measured
	}{
		{head(f.Few, "ebb"), &f.Few.Ebb}, {head(f.Few, "peer"), f.Few.Peer},
		{head(f.Many, "ebb"), &f.Many.Ebb}, {head(f.Many, "peer"), f.Many.Peer},
	}
	fmt.Fprintf(&b, "| %-41s |", "")
	for _, c := range columns {
		fmt.Fprintf(&b, " %13s |", c.name)
	}
	fmt.Fprintf(&b, "\n|%s|%s\n", strings.Repeat("-", 43), strings.Repeat(strings.Repeat("-", 14)+":|", len(columns)))
	for _, r := range rows {
		fmt.Fprintf(&b, "| %-41s |", r.name)
		for _, c := range columns {
			v := 0.0
			if c.m != nil {
				v = r.of(*c.m)
			}
			fmt.Fprintf(&b, " %13s |", result.Figure(v))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// render writes the report's section from the size.json in a directory.
func render(results string) error {
	return result.Render(results, "size", func(f figures) string { return report + f.markdown() })
}

const report = `## Size: a million objects

ConfigMaps and Pods with small metadata, a third with owners, on a real etcd and API server on the same machine of two cores. ebb-controller and the garbage
collector of the kube-controller-manager 1.36 one after the other; then an owner of a twentieth of the objects is deleted. An empty cell was not measured: the
peer is left out where the machine has not the memory for it.

`
