package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ebb-agent/ebb/bench/chart"
	"github.com/ebb-agent/ebb/bench/result"
)

// render writes the report's section and its picture from the node.json in a
// directory. The report is beside that directory.
func render(results string) error {
	if results == "" {
		return nil
	}
	var f figures
	if err := result.Read(results, "node", &f); err != nil {
		return fmt.Errorf("render: %w", err)
	}
	c := f.chart()
	if len(c.Lines) == 0 {
		return errors.New("render: node.json has no usage over time; a full run writes it")
	}
	picture, err := os.Create(filepath.Join(results, "node.svg"))
	if err != nil {
		return fmt.Errorf("render: %w", err)
	}
	if err := errors.Join(c.Write(picture), picture.Close()); err != nil {
		return fmt.Errorf("render: %w", err)
	}
	return result.Render(results, "node", figures.report)
}

func (f figures) report() string {
	text := fmt.Sprintf(`## Node: a full disk, before ebb and before the kubelet

One call fills a 1 GiB disk to %d %%. On it are %d images that nothing uses, of which each takes %d %% of it. Who makes room, how soon,
and how much of the cache does it cost? The node has an API server, which ebb asks for its pods and in which the kubelet registers. ebb is configured as the chart ships it, but enforces;
ebb and the kubelet's image garbage collection have the thresholds %d and %d %%, and no minimum age, because the images are as young as the run. The eviction manager is at its
defaults, and acts when more than %d %% are used. The kubelet's periods are fixed: 5 minutes for images, 1 minute for containers, 10 s for
the eviction manager. The disk is filled right after the look at images, so that the wait is the longest there is: at a random moment it would be
half of it on average. The eviction manager is met at moments spread over its period.

`, f.Filled, unusedImages, imagePercent, f.High, f.Low, evictionPercent)
	text += result.Table(f.rows())
	text += `
![used percent over time, for each of the three](results/node.svg)

Time is from the call that fills the disk, read every 2 ms. Each line is the run with the median reaction; where it is dotted,
nothing had happened for a while, and nobody looked any more. Other seconds and used percent in the table are medians of the runs; images and bytes
the most of any.

`
	for _, s := range f.beside() {
		text += "- " + s + "\n"
	}
	return text
}

// chart returns the chart, with a line for each contender that has figures.
func (f figures) chart() chart.Chart {
	c := chart.Chart{
		Title:  fmt.Sprintf("How full the disk is, after one call fills it to %d %%", f.Filled),
		XLabel: "time since the disk was filled (logarithmic)", YLabel: "used, %",
		From: 1e-3, To: 600,
		Ticks: []chart.Tick{{At: 1e-3, Label: "1 ms"}, {At: 1e-2, Label: "10 ms"}, {At: 0.1, Label: "100 ms"}, {At: 1, Label: "1 s"},
			{At: 10, Label: "10 s"}, {At: 60, Label: "1 min"}, {At: 600, Label: "10 min"}},
		Levels: []chart.Level{
			{Percent: evictionPercent, Label: fmt.Sprintf("eviction threshold, %d %%", evictionPercent)},
			{Percent: float64(f.High), Label: fmt.Sprintf("high threshold, %d %%", f.High)},
			{Percent: float64(f.Low), Label: fmt.Sprintf("low threshold, %d %%", f.Low)},
		},
	}
	// Colours that people with colour blindness can tell apart.
	for _, l := range []struct {
		label, colour   string
		reaction        string
		removed, needed int
		points          []point
	}{
		{"kubelet, image GC", "#8a5a00", timeText(f.KubeletReaction) + ", at worst", f.KubeletRemoved, f.Needed, f.Usage.Kubelet},
		{"kubelet, eviction manager", "#c0392b", timeText(f.EvictionReaction), f.EvictionRemoved, f.EvictionNeeded, f.Usage.Eviction},
		{"ebb", "#0063a8", timeText(f.EbbReaction), f.EbbRemoved, f.Needed, f.Usage.Ebb},
	} {
		if len(l.points) == 0 {
			continue
		}
		line := chart.Line{Label: l.label, Colour: l.colour,
			Notes: []string{"room after " + l.reaction, fmt.Sprintf("%d images removed, %d needed", l.removed, l.needed)}}
		for _, p := range l.points {
			line.Points = append(line.Points, chart.Point{At: p[0] / 1e3, Percent: p[1]})
		}
		c.Lines = append(c.Lines, line)
		c.Text += fmt.Sprintf("%s: %s, %.0f %% used in the end. ", l.label, strings.Join(line.Notes, ", "), l.points[len(l.points)-1][1])
	}
	return c
}

// timeText formats a time with as many digits as the picture needs.
func timeText(seconds float64) string {
	switch {
	case seconds < 1:
		return fmt.Sprintf("%.0f ms", seconds*1e3)
	case seconds < 100:
		return fmt.Sprintf("%.1f s", seconds)
	}
	return fmt.Sprintf("%.0f s", seconds)
}
