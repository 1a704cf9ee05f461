package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/tools/cgroup"
)

// memoryLimit is the agent's limit in the chart.
const memoryLimit = "256M"

// memory is the agent's cgroup. It has no files if no hierarchy of this machine counts memory.
type memory struct {
	name         string
	procs, limit string // files
}

func makeMemory(name string) (m memory, err error) {
	m.name = name
	tops, err := cgroup.Hierarchies()
	if err := errors.Join(err, cgroup.Make(name)); err != nil {
		return m, err
	}
	for _, top := range tops {
		dir := filepath.Join(top, name)
		for _, file := range []string{"memory.limit_in_bytes", "memory.max"} { // of version 1 and 2
			if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
				m.procs, m.limit = filepath.Join(dir, "cgroup.procs"), filepath.Join(dir, file)
				return m, m.set(memoryLimit)
			}
		}
	}
	return m, nil
}

func (m memory) set(limit string) error { return os.WriteFile(m.limit, []byte(limit), 0o644) }

func (m memory) remove(ctx context.Context) error {
	if m.name == "" {
		return nil
	}
	return cgroup.Remove(ctx, m.name)
}

// agentIn writes a program to dir that runs the agent in the cgroup, and returns its path.
func (m memory) agentIn(dir, agent string) (string, error) {
	if m.limit == "" {
		return agent, nil
	}
	path := filepath.Join(dir, "agent-in-cgroup")
	script := fmt.Sprintf("#!/bin/sh\necho $$ >%q && exec %q \"$@\"\n", m.procs, agent)
	return path, os.WriteFile(path, []byte(script), 0o700)
}

// limitMemory restarts the agent with less memory than it may need, so that the kernel can kill it
// at any moment, during its start or later.
func (d *driver) limitMemory(ctx context.Context) (func(context.Context) error, error) {
	p := d.running()
	d.setAgent(nil)
	if err := p.Stop(); err != nil {
		return nil, err
	}
	limit := fmt.Sprintf("%dM", 8+d.random.IntN(32))
	if err := d.memory.set(limit); errors.Is(err, unix.EBUSY) { // what is pinned takes more
		return d.startAgent, nil
	} else if err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := d.startAgent(soon); err != nil {
		benchmark.Say("the agent does not start with %s", limit)
	}
	return func(ctx context.Context) error {
		if err := d.memory.set(memoryLimit); err != nil {
			return err
		}
		if p := d.running(); p != nil {
			if p.AwaitReady(ctx) == nil {
				return nil
			}
			benchmark.Say("the agent was ended with %s", limit)
			d.setAgent(nil)
		}
		return d.startAgent(ctx)
	}, nil
}
