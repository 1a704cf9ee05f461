package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/preview"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/agent/show"
)

const cascadeLong = `cascade shows what the deletion of an object would do, before you delete it. It prints a
tree: what would be deleted, what would be orphaned, what stays and why, and what would
wait for finalizers or for other objects.

It reads the metadata of all objects that you may read, and lets ebb's collector decide on
them. It changes nothing. A complete answer needs the rights to get and list all
types. The command names the types that you may not read. Their objects are missing from
the tree, and the answer is incomplete.

--config names the configuration file of ebb-controller, for its exclusions.

` + exitTable

const cascadeExamples = `  # what kubectl delete would do
  ebb cascade deployment/web -n shop

  # what would be different if its dependents went first, or stayed
  ebb cascade deployments.apps/web -n shop --cascade=foreground
  ebb cascade deploy/web -n shop --cascade=orphan

  # for scripts: the number of pods that would be deleted
  ebb cascade node/worker-3 -o json | jq '.counts[] | select(.kind == "Pod").deleted'`

func cascadeCommand(stdout, stderr io.Writer) *cobra.Command {
	var o preview.Options
	var to apiAccess
	var policy, output, file string
	cmd := &cobra.Command{
		Use:     "cascade TYPE/NAME",
		Short:   "Show what the deletion of an object would do to its dependents",
		Long:    cascadeLong,
		Example: cascadeExamples,
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := checkOutput(output, textOrJSON); err != nil {
				return err
			}
			if o.Policy, err = preview.ParsePolicy(policy); err != nil {
				return usagef("--cascade: %w", err)
			}
			if o.Resource, o.Name, err = target(args); err != nil {
				return err
			}
			answer, err := look(cmd.Context(), o, to, file)
			if err != nil {
				return err
			}
			return sayAnswer(cmd.Context(), stdout, stderr, answer, output)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.Namespace, "namespace", "n", "", "namespace of the object; without it that of the kubeconfig's context, else default")
	flags.StringVar(&policy, "cascade", "background", "deletion policy, as in kubectl delete: background, foreground or orphan")
	flags.StringVarP(&output, "output", "o", "text", "output format: text, or json with stable field names (docs/cascade-preview.md)")
	to.flags(flags)
	flags.StringVar(&file, "config", "", "configuration file of ebb-controller, for its exclusions")
	flags.IntVar(&o.Limits.Nodes, "limit", 0, "show at most this many objects (default 1000); all are counted")
	flags.IntVar(&o.Limits.Alike, "alike", 0, "show at most this many dependents of one kind for each owner (default 10)")
	program.Choices(cmd, "output", "text", "json")
	program.Choices(cmd, "cascade", "background", "foreground", "orphan")
	return cmd
}

func look(ctx context.Context, o preview.Options, to apiAccess, file string) (_ preview.Answer, err error) {
	if file != "" {
		c, err := config.Load(file)
		if err != nil {
			return preview.Answer{}, err
		}
		o.Exclude = &c.Exclude
	}
	if o.Config, err = to.config(); err == nil {
		err = to.defaultNamespace(&o.Namespace)
	}
	if err != nil {
		return preview.Answer{}, err
	}
	return preview.Simulate(ctx, o)
}

// target reads TYPE/NAME or TYPE NAME.
func target(args []string) (resource, name string, err error) {
	resource, name, ok := strings.Cut(args[0], "/")
	if len(args) == 2 {
		resource, name, ok = args[0], args[1], !ok
	}
	if !ok || resource == "" || name == "" || strings.Contains(name, "/") {
		return "", "", usagef("%q: want TYPE/NAME, for example deployment/web", strings.Join(args, " "))
	}
	return resource, name, nil
}

func sayAnswer(ctx context.Context, stdout, stderr io.Writer, a preview.Answer, output string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !a.Complete && output == "json" { // the text says so itself
		fmt.Fprintf(stderr, "ebb: warning: the preview is incomplete: %d types were not seen\n", len(a.NotSeen))
	}
	write := preview.WriteText
	if output == "json" {
		write = func(w io.Writer, a preview.Answer) error { return show.WriteJSON(w, a) }
	}
	if err := write(stdout, a); err != nil {
		return err
	}
	return outcome(false, !a.Complete)
}
