package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// rows are the table's: a name, and what each contender has for it; nothing for one
// that was not measured.
func (f figures) rows() [][]string {
	seconds := func(v *float64) any {
		if v == nil {
			return "not reached"
		}
		return *v
	}
	rows := [][]string{{"", "ebb", "kubelet, image GC", "kubelet, eviction"}}
	runs := []int{f.EbbRuns, f.KubeletRuns, f.EvictionRuns}
	row := func(name string, values ...any) {
		cells := []string{name}
		for i, v := range values {
			if runs[i] == 0 {
				v = ""
			}
			cells = append(cells, fmt.Sprint(v))
		}
		rows = append(rows, cells)
	}
	row("seconds until there is room", f.EbbReaction, f.KubeletReaction, f.EvictionReaction)
	row("its low line, % used", f.Low, f.Low, evictionPercent)
	row("seconds until that", seconds(f.EbbLow), seconds(f.KubeletLow), seconds(f.EvictionLow))
	row("images needed for that", f.Needed, f.Needed, f.EvictionNeeded)
	row("images removed", f.EbbRemoved, f.KubeletRemoved, f.EvictionRemoved)
	row("used in the end, %", f.EbbFinal, f.KubeletFinal, f.EvictionFinal)
	row("pulled again, MiB", f.EbbPulledAgain/mib, f.KubeletPulledAgain/mib, f.EvictionPulledAgain/mib)
	row("failed writes", f.EbbENOSPC, f.KubeletENOSPC, f.EvictionENOSPC)
	row("the writer's time, s", f.EbbLoad.Seconds, f.KubeletLoad.Seconds, f.EvictionLoad.Seconds)
	row("CPU meanwhile, ms", f.EbbLoad.CPU, f.KubeletLoad.CPU, f.EvictionLoad.CPU)
	row("context switches meanwhile", f.EbbLoad.Switches, f.KubeletLoad.Switches, f.EvictionLoad.Switches)
	row("memory then, MiB", f.EbbLoad.RSS, f.KubeletLoad.RSS, f.EvictionLoad.RSS)
	row("idle CPU, % of a core", f.EbbIdleCPU, f.KubeletIdleCPU, "")
	row("idle context switches a second", f.EbbIdleSwitches, f.KubeletIdleSwitches, "")
	row("memory, MiB", f.EbbRSS, f.KubeletRSS, "")
	row("runs", f.EbbRuns, f.KubeletRuns, f.EvictionRuns)
	return rows
}

// beside says what both together did, a sentence for each writer.
func (f figures) beside() (sentences []string) {
	for _, b := range []struct {
		speed string
		besideFigures
	}{{fmt.Sprintf("a writer of %d %% of the disk a second", pacedSpeed), f.Beside}, {"a writer at full speed", f.Flood}} {
		if b.Fills == 0 {
			continue
		}
		sentences = append(sentences, fmt.Sprintf("ebb beside the kubelet, and %s: %d fills, %d images removed, the kubelet's eviction manager "+
			"under pressure %d times; the disk over its line for at most %v s; %d failed writes.",
			b.speed, b.Fills, b.Removed, b.Pressure, b.OverLine, b.ENOSPC))
	}
	return sentences
}

// printTable is for people at a terminal; node.json has the same figures.
func printTable(w io.Writer, f figures) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range f.rows() {
		fmt.Fprintln(t, strings.Join(r, "\t")+"\t")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range f.beside() {
		if _, err := fmt.Fprintln(w, s); err != nil {
			return err
		}
	}
	return nil
}

// markdown is the same table for the report.
func (f figures) markdown() string {
	var b strings.Builder
	for i, r := range f.rows() {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r, " | "))
		if i == 0 {
			b.WriteString("|---|" + strings.Repeat("---:|", len(r)-1) + "\n")
		}
	}
	return b.String()
}
