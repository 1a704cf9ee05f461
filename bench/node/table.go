package main

import (
	"fmt"
	"strings"

	"github.com/ebb-agent/ebb/bench/result"
)

// rows returns the rows of the table: a name, and the value of each contender, which is "" if it
// was not measured.
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
	row("seconds until there is room, at worst", result.Figure(f.EbbReactionMax), result.Figure(f.KubeletReaction), result.Figure(f.EvictionReactionMax))
	row("on average", result.Figure(f.EbbReactionMean), result.Figure(f.KubeletReactionMean), result.Figure(f.EvictionReactionMean))
	row("its low threshold, % used", f.Low, f.Low, evictionPercent)
	row("seconds until that", seconds(f.EbbLow), seconds(f.KubeletLow), seconds(f.EvictionLow))
	row("images needed for that", f.Needed, f.Needed, f.EvictionNeeded)
	row("images removed", f.EbbRemoved, f.KubeletRemoved, f.EvictionRemoved)
	row("used in the end, %", f.EbbFinal, f.KubeletFinal, f.EvictionFinal)
	row("pulled again, MiB", rounded(f.EbbPulledAgain), rounded(f.KubeletPulledAgain), rounded(f.EvictionPulledAgain))
	row("failed writes", f.EbbENOSPC, f.KubeletENOSPC, f.EvictionENOSPC)
	row("the writer's time, s", f.EbbLoad.Seconds, f.KubeletLoad.Seconds, f.EvictionLoad.Seconds)
	row("CPU meanwhile, ms", f.EbbLoad.CPU, f.KubeletLoad.CPU, f.EvictionLoad.CPU)
	row("context switches meanwhile", f.EbbLoad.Switches, f.KubeletLoad.Switches, f.EvictionLoad.Switches)
	row("memory then, MiB", f.EbbLoad.RSS, f.KubeletLoad.RSS, f.EvictionLoad.RSS)
	row("runs", f.EbbRuns, f.KubeletRuns, f.EvictionRuns)
	return rows
}

// rounded returns bytes in MiB.
func rounded(bytes uint64) uint64 { return (bytes + mib/2) / mib }

// beside describes ebb beside the kubelet, with a sentence for each writer.
func (f figures) beside() (sentences []string) {
	for _, b := range []struct {
		speed string
		besideFigures
	}{{fmt.Sprintf("a writer of %d %% of the disk a second", pacedSpeed), f.Beside}, {"a writer at full speed", f.Flood}} {
		if b.Fills == 0 {
			continue
		}
		sentences = append(sentences, fmt.Sprintf("ebb beside the kubelet, and %s: %d fills, %d images removed, the kubelet's eviction manager "+
			"under pressure %d times; the disk over its threshold for at most %v s; %d failed writes.",
			b.speed, b.Fills, b.Removed, b.Pressure, b.OverThreshold, b.ENOSPC))
	}
	return sentences
}

// text returns the table and the sentences of beside, for a terminal.
func (f figures) text() string {
	return result.Table(f.rows()) + strings.Join(append(f.beside(), ""), "\n")
}
