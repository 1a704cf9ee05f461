package main

import (
	"fmt"

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

// markdown returns the table, which is also shown in a terminal.
func (f figures) markdown() string {
	all := [][]string{{""}}
	for _, r := range rows {
		all = append(all, []string{r.name})
	}
	for _, s := range []stage{f.Few, f.Many} {
		for _, c := range []struct {
			who string
			m   *measured
		}{{"ebb", &s.Ebb}, {"peer", s.Peer}} {
			all[0] = append(all[0], fmt.Sprintf("%s, %d", c.who, s.Objects))
			for i, r := range rows {
				v := 0.0
				if c.m != nil {
					v = r.of(*c.m)
				}
				all[i+1] = append(all[i+1], result.Figure(v))
			}
		}
	}
	return result.Table(all)
}

// text returns the section of the report.
func (f figures) text() string { return report + f.markdown() }

// render writes the section of the report from size.json in a directory.
func render(results string) error {
	return result.Render(results, "size", figures.text)
}

const report = `## Size: a million objects

ConfigMaps and Pods with small metadata, a third with owners, on a real etcd and API server on the same machine of two cores. ebb-controller and the garbage
collector of the kube-controller-manager 1.36 one after the other; then an owner of a twentieth of the objects is deleted. An empty cell was not measured: the
peer is left out where the machine has not the memory for it.

`
