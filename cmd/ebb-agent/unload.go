package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/lock"
	"github.com/ebb-agent/ebb/agent/node/unload"
	"github.com/ebb-agent/ebb/agent/program"
)

const unloadLong = `unload removes everything that ebb left on this node: kernel programs, leases in containerd,
and the state. First it restores the names of images whose removal was interrupted.

It needs root. It refuses while an agent runs. You can run it again at any time.

Exit codes: 0 done, 1 error: an agent runs, or something could not be removed.`

const unloadExamples = `  # after the last stop, with the configuration of the agent
  ebb-agent unload --config /etc/ebb/agent.yaml

  # the same, but keep the last uses of images for a later installation
  ebb-agent unload --config /etc/ebb/agent.yaml --keep-state`

// leaving has the flags of unload.
type leaving struct {
	root string
	wait time.Duration
	keep bool
	stay bool
}

func unloadCommand(stdout, stderr io.Writer) *cobra.Command {
	var file configFile
	var leave leaving
	cmd := &cobra.Command{
		Use: "unload", Short: "Remove everything that ebb left on this node", Long: unloadLong, Example: unloadExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := file.load()
			if err != nil {
				return err
			}
			return leave.run(cmd.Context(), cfg, stdout, stderr)
		},
	}
	f := cmd.Flags()
	file.flag(f)
	f.StringVar(&leave.root, "root", "", "in a container: directory where the node's root is mounted; all paths are then the node's")
	f.DurationVar(&leave.wait, "wait", 0, "how long to wait for a running agent to end, before it refuses")
	f.BoolVar(&leave.stay, "stay", false, "remove nothing, and wait until it is stopped: for the second container of a DaemonSet's pod, which must not end")
	f.BoolVar(&leave.keep, "keep-state", false, "keep the state file, so that a later agent knows when images were last used")
	return cmd
}

func (l *leaving) run(ctx context.Context, cfg config.Config, stdout, stderr io.Writer) error {
	if l.stay {
		<-ctx.Done()
		return nil
	}
	return unload.Run(ctx, unload.Options{
		Config: cfg, Root: l.root, Wait: l.wait, KeepState: l.keep, Out: stdout,
		Self: lock.Self(program.Version()), Log: program.Logger("warn", "text", stderr),
	})
}
