package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/ebb-agent/ebb/agent/orphans"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/agent/show"
	rules "github.com/ebb-agent/ebb/policy/orphans"
)

const orphansLong = `orphans reports objects that no garbage collector cleans up, each with the reason and a
command that fixes it:

  - objects whose owner cannot be resolved: its type is not served, it is in another
    namespace, or another object has its name
  - namespaces and objects that were deleted and still exist, with what holds them: a
    finalizer, or an API server that does not answer
  - webhooks whose Service does not exist or has no ready endpoint, and API servers that
    do not answer
  - finalizers that no known controller serves
  - Helm releases with too many revisions

It reads the metadata of all objects that you may read, once. Of Secrets it reads nothing
but metadata. It names the types that you may not read. It changes nothing.

Read the sentence above a command before you run it: it says when the command is right.
Commands for owners remove a reference, and delete nothing.

A finding is an object in the report.

` + exitTable

const orphansExamples = `  # the whole cluster
  ebb orphans -A

  # one namespace: objects that have been held for an hour
  ebb orphans -n shop --older-than 1h

  # releases that keep more than five revisions
  ebb orphans -A --release-history 5 -o json | jq -r '.findings[] | select(.reason == "release_history") | .command'

  # only their names
  ebb orphans -n shop -o name`

// orphansFlags are the flags of ebb orphans.
type orphansFlags struct {
	rules.Config
	apiAccess
	all    bool
	output string
}

func orphansCommand(stdout, stderr io.Writer) *cobra.Command {
	var o orphansFlags
	cmd := &cobra.Command{
		Use:     "orphans",
		Short:   "Report objects that no garbage collector cleans up",
		Long:    orphansLong,
		Example: orphansExamples,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			report, err := o.look(cmd.Context(), stderr)
			if err != nil {
				return err
			}
			return o.say(stdout, stderr, report)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.Namespace, "namespace", "n", "", "namespace to check; without it that of the kubeconfig's context, else default")
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "check all namespaces, and objects without a namespace")
	flags.DurationVar(&o.OlderThan, "older-than", rules.OlderThan, "leave out objects that were deleted, and servers that stopped answering, a shorter time ago")
	flags.IntVar(&o.History, "release-history", rules.HistoryDefault, "how many revisions a Helm release may have")
	flags.StringVarP(&o.output, "output", "o", "text", "output format: text, json, yaml, name; field names are stable (docs/orphans.md)")
	o.flags(flags)
	program.Choices(cmd, "output", "text", "json", "yaml", "name")
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
	return cmd
}

func (o *orphansFlags) check() error {
	if err := checkOutput(o.output, allOutputs); err != nil {
		return err
	}
	if o.OlderThan < 0 {
		return usagef("--older-than: %s is below 0", o.OlderThan)
	}
	if o.History < 1 {
		return usagef("--release-history: %d is below 1", o.History)
	}
	return nil
}

func (o *orphansFlags) look(ctx context.Context, stderr io.Writer) (orphans.Report, error) {
	config, err := o.config()
	if err == nil && !o.all {
		err = o.defaultNamespace(&o.Config.Namespace)
	}
	if err != nil {
		return orphans.Report{}, err
	}
	options := orphans.Options{Config: config, Rules: o.Config}
	if o.kubeconfig != "" {
		options.Kubectl = append(options.Kubectl, "--kubeconfig="+o.kubeconfig)
	}
	if o.context != "" {
		options.Kubectl = append(options.Kubectl, "--context="+o.context)
	}
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p := progress{w: stderr}
		options.Progress = p.show
		defer p.clear()
		return orphans.Scan(ctx, options)
	}
	return orphans.Scan(ctx, options)
}

// progress is one line on a terminal, written at most five times a second.
type progress struct {
	w    io.Writer
	last time.Time
}

func (p *progress) show(listed, types, objects int) {
	if now := time.Now(); now.Sub(p.last) > 200*time.Millisecond {
		p.last = now
		fmt.Fprintf(p.w, "\r\x1b[Kread %d of %d types, %d objects", listed, types, objects)
	}
}

func (p *progress) clear() {
	if !p.last.IsZero() {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// say writes the report, and returns the outcome of the command.
func (o *orphansFlags) say(stdout, stderr io.Writer, r orphans.Report) error {
	if !r.Complete && o.output != "text" { // the text says so itself
		fmt.Fprintf(stderr, "ebb: warning: the report is incomplete: %d types or groups were not seen\n", len(r.NotSeen))
	}
	if err := o.write(stdout, r); err != nil {
		return err
	}
	return outcome(len(r.Findings) > 0, !r.Complete)
}

func (o *orphansFlags) write(w io.Writer, r orphans.Report) error {
	switch o.output {
	case "text":
		return orphans.WriteText(w, r)
	case "name":
		return orphans.WriteNames(w, r)
	case "yaml":
		return show.WriteYAML(w, r)
	}
	return show.WriteJSON(w, r)
}
