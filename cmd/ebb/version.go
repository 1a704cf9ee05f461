package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

const versionLong = `version shows the version of this command. With --agents it also lists the pods of agents and
controllers, with their images and the version of their chart, and the controller that
leads. That needs the rights to list pods and Leases. It changes nothing.`

const versionExamples = `  # the version of this command
  ebb version

  # the versions of all agents and controllers
  ebb version --agents

  # for scripts
  ebb version --agents -o json`

// versions is the output of ebb version.
type versions struct {
	Version     string            `json:"version"`
	Controllers []desk.Controller `json:"controllers,omitempty"`
	Agents      []desk.Agent      `json:"agents,omitempty"`
}

func versionCommand(stdout, stderr io.Writer) *cobra.Command {
	var a agentAccess
	var agents bool
	cmd := &cobra.Command{
		Use: "version", Short: "Show the version of this command, of agents and of controllers", Long: versionLong, Example: versionExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			v := versions{Version: program.Version()}
			if err := a.checkOutput(); err != nil {
				return err
			}
			if agents {
				if err = v.list(cmd.Context(), &a, stderr); err != nil {
					return err
				}
			}
			return a.answer(stdout, v, func() error { return v.write(stdout) }, true, 0)
		},
	}
	a.flags(cmd)
	cmd.Flags().BoolVar(&agents, "agents", false, "also list agents and controllers")
	return cmd
}

// list reads the pods of the selected agents. Unless --node or --socket is set, it also reads those
// of the controllers.
func (v *versions) list(ctx context.Context, a *agentAccess, stderr io.Writer) error {
	d, err := a.connect()
	if err != nil {
		return err
	}
	defer d.Close()
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	v.Agents, err = d.Agents(ctx)
	missing := err
	if err != nil && !errors.Is(err, desk.ErrNoAgents) || a.socket != "" || len(a.nodes) > 0 {
		return err
	}
	v.Controllers, err = d.Controllers(ctx)
	if len(v.Controllers) == 0 && (err != nil || missing != nil) {
		return cmp.Or(err, missing)
	}
	if err != nil {
		fmt.Fprintln(stderr, "ebb: warning: it is not known which controller leads:", visible(err.Error()))
	}
	return nil
}

func (v *versions) write(w io.Writer) error {
	if _, err := fmt.Fprintln(w, "ebb", v.Version); err != nil || len(v.Agents)+len(v.Controllers) == 0 {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(v.Controllers) > 0 {
		fmt.Fprintln(t, "\nCONTROLLER\tLEADS\tREADY\tCHART\tIMAGE")
	}
	for _, c := range v.Controllers {
		fmt.Fprintf(t, "%s\t%t\t%t\t%s\t%s\n", fault.Clean(c.Pod), c.Leads, c.Ready, fault.Clean(c.Version), fault.Clean(c.Image))
	}
	if len(v.Agents) > 0 {
		fmt.Fprintln(t, "\nNODE\tREADY\tCHART\tIMAGE")
	}
	for _, a := range v.Agents {
		fmt.Fprintf(t, "%s\t%t\t%s\t%s\n", fault.Clean(a.Node), a.Ready, fault.Clean(a.Version), fault.Clean(a.Image))
	}
	return t.Flush()
}
