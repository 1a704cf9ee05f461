package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/ebb-agent/ebb/agent/doctor"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/agent/show"
)

// run checks this node against the agent's configuration in file, and writes the report.
func (e examination) run(ctx context.Context, file, output string, w io.Writer) error {
	o := doctor.Options{KubeletConfig: e.kubeletConfig, Kubelet: e.kubelet, KubeletPID: e.kubeletPID, SkipProbes: e.skipProbes}
	var err error
	if o.Config, o.ConfigFile, err = loadConfig(file); err != nil {
		return err
	}
	if err := program.EnterRoot(e.root); err != nil {
		return err
	}
	report := doctor.Evaluate(doctor.Collect(ctx, o))
	if err := ctx.Err(); err != nil {
		return err // interrupted: what was read is not the node's state
	}
	return say(w, report, output)
}

// loadConfig reads the agent's configuration. Without a name it reads usualConfig or, if that does
// not exist, returns the defaults.
func loadConfig(name string) (c config.Config, file string, err error) {
	file = cmp.Or(name, usualConfig)
	if c, err = config.Load(file); name == "" && errors.Is(err, fs.ErrNotExist) {
		return config.Default(), "", nil
	}
	return c, file, err
}

// say writes the report, and returns the outcome of the command.
func say(w io.Writer, report doctor.Report, output string) error {
	var err error
	if output == "json" {
		err = show.WriteJSON(w, report)
	} else {
		err = doctor.WriteText(w, report)
	}
	if err != nil {
		return err
	}
	return outcome(report.Summary.Warnings+report.Summary.Errors > 0, false)
}
