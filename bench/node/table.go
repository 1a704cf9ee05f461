package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// printTable is for people; node.json has the same figures.
func printTable(w io.Writer, f figures) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tebb\tkubelet, images\tkubelet, eviction\t")
	row := func(name string, values ...any) {
		fmt.Fprintf(t, "%s\t", name)
		for _, v := range values {
			fmt.Fprintf(t, "%v\t", v)
		}
		fmt.Fprintln(t)
	}
	row("seconds until there is room", f.EbbReaction, f.KubeletReaction, f.EvictionReaction)
	row("images needed", f.Needed, f.Needed, f.EvictionNeeded)
	row("images removed", f.EbbRemoved, f.KubeletRemoved, f.EvictionRemoved)
	row("used in the end, %", f.EbbFinal, f.KubeletFinal, f.EvictionFinal)
	row("pulled again, MiB", f.EbbPulledAgain/mib, f.KubeletPulledAgain/mib, f.EvictionPulledAgain/mib)
	row("failed writes", f.EbbENOSPC, f.KubeletENOSPC, f.EvictionENOSPC)
	row("idle CPU, % of a core", f.EbbIdleCPU, f.KubeletIdleCPU, "")
	row("idle context switches a second", f.EbbIdleSwitches, f.KubeletIdleSwitches, "")
	row("memory, MiB", f.EbbRSS, f.KubeletRSS, "")
	if err := t.Flush(); err != nil {
		return err
	}
	for _, b := range []struct {
		speed string
		besideFigures
	}{{fmt.Sprintf("a writer of %d %% of the disk a second", pacedSpeed), f.Beside}, {"a writer at full speed", f.Flood}} {
		if _, err := fmt.Fprintf(w, "ebb beside the kubelet, and %s: %d fills, %d images removed, the kubelet under pressure %d times; longest over its line %v s; %d failed writes\n",
			b.speed, b.Fills, b.Removed, b.Pressure, b.OverLine, b.ENOSPC); err != nil {
			return err
		}
	}
	return nil
}
