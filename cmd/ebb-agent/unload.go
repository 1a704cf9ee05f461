package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/lock"
	"github.com/ebb-agent/ebb/agent/node/unload"
	"github.com/ebb-agent/ebb/agent/program"
)

// leaving is how --unload is to go about it.
type leaving struct {
	root string
	wait time.Duration
	keep bool
}

func (l *leaving) flags(f *pflag.FlagSet) {
	f.StringVar(&l.root, "root", "", "of --unload: where the node's root directory is mounted, if this is a container; all paths are the node's then")
	f.DurationVar(&l.wait, "wait", 0, "of --unload: how long to wait for a running agent to end, before refusing")
	f.BoolVar(&l.keep, "keep-state", false, "of --unload: leave the state file, so that a later agent knows when images were last used")
}

// only refuses these flags without --unload: whoever gives them does not mean to start an
// agent.
func (l *leaving) only(unloading bool, f *pflag.FlagSet) error {
	for _, name := range []string{"root", "wait", "keep-state"} {
		if f.Changed(name) && !unloading {
			return fmt.Errorf("--%s: is for --unload", name)
		}
	}
	return nil
}

func (l *leaving) run(ctx context.Context, cfg config.Config, stdout, stderr io.Writer) error {
	return unload.Run(ctx, unload.Options{
		Config: cfg, Root: l.root, Wait: l.wait, KeepState: l.keep, Out: stdout,
		Self: lock.Self(program.Version()), Log: program.Logger("warn", "text", stderr),
	})
}
