package main

import (
	"fmt"

	"github.com/ebb-agent/ebb/bench/result"
)

// text returns the section of the report.
func (f figures) text() string {
	rows := [][]string{{"", "ebb", "kubelet"}}
	for _, r := range []struct {
		name string
		of   func(*race) int
	}{
		{"pods whose image was there when they were bound", func(r *race) int { return r.Started }},
		{"of these: did not run", func(r *race) int { return r.Permanently }},
		{"found no image at first, and ran", func(r *race) int { return r.Transiently }},
		{"pods whose image went while they were bound", func(r *race) int { return r.Withdrawn }},
		{"of these: ran", func(r *race) int { return r.WithdrawnRan }},
		{"pods whose image was away before", func(r *race) int { return r.Missing - r.Withdrawn }},
		{"images removed", func(r *race) int { return r.Removed }},
		{"images kept at the last moment", func(r *race) int { return r.Kept }},
		{"kills of the agent", func(r *race) int { return r.Kills }},
		{"imports that had to wait for space", func(r *race) int { return r.NoSpace }},
		{"pods that met a full disk", func(r *race) int { return r.DiskFull }},
	} {
		row := []string{r.name}
		for _, of := range []*race{f.Race, f.KubeletRace} {
			cell := ""
			if of != nil {
				cell = fmt.Sprint(r.of(of))
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return `## Containers: pods that start while images go

A real kubelet, registered with an API server, starts pods from 30 images on a disk with places for half of them. What is missing is brought in as a pull would bring it, so that
images have to go all the time. With ebb, as the chart ships it, the kubelet removes no images, and the agent is killed (SIGKILL) now and then. Without it, the kubelet does it: its image garbage
collection every 5 minutes, its eviction manager every 10 s, both with their default thresholds. Images have no minimum age with either.

` + result.Table(rows)
}

// render writes the section of the report from containers.json in a directory.
func render(results string) error { return result.Render(results, "containers", figures.text) }
