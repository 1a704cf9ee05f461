package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// sampleTime is how long programs' runs are counted for a report.
const sampleTime = time.Second

const reportLong = `report lists the kernel programs of ebb: whether each one is attached or why not, how often
it ran, and what that cost. It also shows how full their maps are, and which events were
lost.

It needs root, and in a container the agent's capabilities. It does not disturb a running
agent. If no programs are pinned, it loads them for a moment, and removes them when it ends.

Exit codes: 0 fine, 1 error.`

const reportExamples = `  # the programs in the kernel, and those that could not be loaded
  ebb-agent report

  # for scripts: the programs that are not attached
  ebb-agent report --output json | jq -r '.objects[].programs[] | select(.attached | not).name'`

func reportCommand(stdout io.Writer) *cobra.Command {
	var file configFile
	var output string
	cmd := &cobra.Command{
		Use: "report", Short: "List the kernel programs: attached or why not, cost, maps, lost events", Long: reportLong, Example: reportExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := file.load()
			if err != nil {
				return err
			}
			return probeReport(cmd.Context(), cfg.Kernel.PinDirectory, output, stdout)
		},
	}
	file.flag(cmd.Flags())
	cmd.Flags().StringVar(&output, "output", "text", "output format: text, json")
	program.Choices(cmd, "output", "text", "json")
	return cmd
}

// probeReport writes what is in the kernel, as text for people or as JSON.
func probeReport(ctx context.Context, pinDir, output string, w io.Writer) error {
	if output != "text" && output != "json" {
		return fmt.Errorf("--output: %q is neither text nor json", output)
	}
	r, err := bpf.ReadReport(ctx, pinDir, sampleTime)
	if err != nil {
		return err
	}
	if output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	_, err = io.WriteString(w, reportText(r))
	return err
}

func reportText(r *bpf.Report) string {
	var b strings.Builder
	if r.Trial {
		fmt.Fprintf(&b, "Nothing is pinned below %s: loaded for this report only, and gone with it.\n", r.PinDir)
	} else {
		fmt.Fprintf(&b, "Pinned below %s.\n", r.PinDir)
	}
	if r.RunTime != "" {
		fmt.Fprintf(&b, "Run-time statistics: %s\n", r.RunTime)
	}
	if r.Note != "" {
		fmt.Fprintf(&b, "%s\n", r.Note)
	}
	b.WriteByte('\n')
	programTable(&b, r)
	b.WriteByte('\n')
	mapTable(&b, r)
	b.WriteByte('\n')
	eventTable(&b, r)
	return b.String()
}

func programTable(b *strings.Builder, r *bpf.Report) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PROGRAM\tATTACHED TO\tSTATE\t      RUNS\tNS/RUN\tMISSED")
	for _, o := range r.Objects {
		for _, p := range o.Programs {
			state := o.State
			if !p.Attached {
				state = "not attached"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%10s\t%6s\t%6d\n",
				fault.Clean(p.Name), dash(p.AttachPoint), state, count(p.Runs), count(p.Nanoseconds), p.Missed)
		}
	}
	t.Flush()
	for _, why := range reasons(r) {
		fmt.Fprintf(b, "  ! %s\n", why)
	}
}

// reasons returns each problem once, with the objects or programs that have it.
func reasons(r *bpf.Report) []string {
	var order []string
	who := map[string][]string{}
	note := func(name, reason string) {
		if reason == "" {
			return
		}
		if who[reason] == nil {
			order = append(order, reason)
		}
		who[reason] = append(who[reason], fault.Clean(name))
	}
	for _, o := range r.Objects {
		note(o.Name, o.Reason)
		for _, p := range o.Programs {
			if p.Reason != o.Reason {
				note(p.Name, p.Reason)
			}
		}
	}
	lines := make([]string, len(order))
	for i, reason := range order {
		lines[i] = strings.Join(who[reason], ", ") + ": " + fault.CleanUpTo(reason, 2000)
	}
	return lines
}

func mapTable(b *strings.Builder, r *bpf.Report) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MAP\tTYPE\tENTRIES\t  ROOM\t FULL\tKERNEL MEMORY")
	for _, o := range r.Objects {
		for _, m := range o.Maps {
			entries, full := "-", "-"
			if m.Entries >= 0 {
				entries, full = fmt.Sprint(m.Entries), fmt.Sprintf("%d %%", 100*m.Entries/int(max(m.MaxEntries, 1)))
			}
			fmt.Fprintf(t, "%s\t%s\t%7s\t%6d\t%5s\t%13s\n", fault.Clean(m.Name), strings.ToLower(m.Type), entries, m.MaxEntries, full, size(m.Bytes))
		}
	}
	fmt.Fprintf(t, "all maps\t\t\t\t\t%13s\n", size(r.MapBytes))
	t.Flush()
}

func eventTable(b *strings.Builder, r *bpf.Report) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "EVENT\t     COUNT")
	for _, e := range r.Events {
		fmt.Fprintf(t, "%s\t%10d\n", e.Event, e.Count)
	}
	for _, e := range r.Lost {
		fmt.Fprintf(t, "lost: %s\t%10d\n", e.Event, e.Count)
	}
	t.Flush()
}

func size(bytes uint64) string { return units.BytesSize(float64(bytes)) }

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return fault.Clean(s)
}

// count formats a count; "-" if nothing was counted.
func count(n uint64) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
