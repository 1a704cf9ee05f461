package main

import (
	"fmt"

	"github.com/ebb-agent/ebb/bench/result"
)

// markdown returns the table, which is also shown in a terminal.
func (f figures) markdown() string {
	rows := [][]string{{fmt.Sprintf("%d images, %d pods", f.Images, f.Containers), "ebb", "kubelet beside it", "kubelet with image GC"}}
	for _, r := range []struct {
		name string
		of   func(cost) float64
	}{
		{"CPU, % of a core", func(c cost) float64 { return c.CPU }},
		{"voluntary context switches a minute", func(c cost) float64 { return c.Switches }},
		{"memory, MiB", func(c cost) float64 { return c.RSS }},
		{"at most since its start, MiB", func(c cost) float64 { return c.PeakRSS }},
	} {
		row := []string{r.name}
		for _, c := range []cost{f.Ebb, f.Kubelet, f.KubeletImages} {
			row = append(row, fmt.Sprint(r.of(c)))
		}
		rows = append(rows, row)
	}
	return result.Table(rows)
}

// text returns the section of the report.
func (f figures) text() string {
	return fmt.Sprintf(`## Idle: a node on which nothing happens

Two throwaway nodes, each with an API server, %d images and %d pods of one sleeping container. They are measured at the same time, for %.0f s, in which nobody asks them anything.
On one, ebb as the chart installs it runs beside the kubelet, whose image garbage collection is handed over to ebb. On the other the kubelet runs alone, with its image garbage
collection: its look every 5 minutes is in it, and there is nothing to remove. The kubelet does much more than ebb. What ebb takes off it is the difference of the
last two columns; what ebb costs is the first.

`, f.Images, f.Containers, f.Period) + f.markdown() + fmt.Sprintf(`
ebb woke up by its own timers %v times a minute. A scrape of its metrics took %v ms (the median of %d), %v ms of CPU time, and had %d series.
`, f.OwnWakeups, f.ScrapeTook, scrapes, f.ScrapeCPU, f.ScrapeSeries)
}

// render writes the section of the report from idle.json in a directory.
func render(results string) error { return result.Render(results, "idle", figures.text) }
