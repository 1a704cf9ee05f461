package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/tools/agentrun"
)

// fault is a fault that lasts while the driver makes steps.
type fault struct {
	kind  string
	until int // the step after which it is repaired
	mend  func(context.Context) error
	ended func(time.Time) // reports its end to the oracle
}

// turnFault repairs the present fault when it is time, and begins the next one.
func (d *driver) turnFault(ctx context.Context, n int) error {
	if d.fault != nil && n >= d.fault.until {
		if err := d.endFault(ctx); err != nil {
			return err
		}
	}
	if d.fault != nil || n < d.next {
		return nil
	}
	d.next = n + d.gap/2 + d.random.IntN(d.gap+1)
	type kind struct {
		name  string
		begin func(context.Context) (mend func(context.Context) error, err error)
	}
	kinds := []kind{
		{"agent killed", d.killAgent}, {"agent restarted", d.restartAgent}, {"containerd killed", d.killContainerd},
		{"runtime hangs", d.hang}, {"state disk full", d.fillState}, {"disk full", d.fillDisk}, {"API server away", d.stopAPI},
		{"clock set", d.setClock}, {"memory limit", d.limitMemory}, {"reboot", d.reboot},
	}
	kinds = slices.DeleteFunc(kinds, func(k kind) bool {
		return d.memory.limit == "" && k.name == "memory limit" ||
			k.name == "reboot" && d.random.IntN(3) > 0 // it ends all containers that stay
	})
	k := kinds[d.random.IntN(len(kinds))]
	benchmark.Say("fault: %s", k.name)
	d.faults[k.name]++
	d.fault = &fault{kind: k.name, until: n + 1 + d.random.IntN(6), ended: d.oracle.OutageBegins(time.Now())}
	mend, err := k.begin(ctx)
	d.fault.mend = mend
	if err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	if mend == nil { // it is over already
		return d.endFault(ctx)
	}
	return nil
}

// endFault repairs the present fault and waits until the agent is ready again.
func (d *driver) endFault(ctx context.Context) error {
	f := d.fault
	if f == nil {
		return nil
	}
	d.fault = nil
	defer func() { f.ended(time.Now()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, 3*time.Minute, errors.New("a fault could not be mended"))
	defer cancel()
	if f.mend != nil {
		if err := f.mend(ctx); err != nil {
			return fmt.Errorf("mend %s: %w", f.kind, err)
		}
	}
	if p := d.running(); p != nil {
		if err := p.AwaitReady(ctx); err != nil {
			return fmt.Errorf("after %s: %w", f.kind, err)
		}
	}
	return nil
}

func (d *driver) killAgent(context.Context) (func(context.Context) error, error) {
	p := d.running()
	d.setAgent(nil)
	return d.startAgent, p.Kill()
}

func (d *driver) restartAgent(ctx context.Context) (func(context.Context) error, error) {
	p := d.running()
	d.setAgent(nil)
	if err := p.Stop(); err != nil {
		return nil, err
	}
	return nil, d.startAgent(ctx)
}

// setClock shifts the times that the agent saved. To the next agent, records that are two days
// ahead look the same as a clock that was set back by two days. The clock is never ahead of the
// records, because ends of containers would then count as later than they were, by design.
func (d *driver) setClock(ctx context.Context) (func(context.Context) error, error) {
	p := d.running()
	d.setAgent(nil)
	if err := p.Stop(); err != nil {
		return nil, err
	}
	behind := time.Duration(d.random.Int64N(int64(48 * time.Hour)))
	err := d.editState(func(r *state.Records) {
		r.Shift(behind - d.behind)
		r.Meta.Anchor.Wall = r.Meta.Anchor.Wall.Add(behind - d.behind)
	})
	if err != nil {
		return nil, err
	}
	d.behind = behind
	return nil, d.startAgent(ctx)
}

// editState changes what the agent has saved, while no agent runs.
func (d *driver) editState(edit func(*state.Records)) error {
	store, records, aside, err := state.Open(d.config.State.Directory, time.Now())
	if err != nil {
		return err
	}
	if aside != "" {
		return errors.Join(fmt.Errorf("the agent left a state file that cannot be read: %s", aside), store.Close())
	}
	edit(&records)
	return errors.Join(store.Save(records), store.Close())
}

// reboot does all that a reboot does, except to the machine itself. It kills every process and
// unloads what the kernel knew, and the agent finds the state of another boot.
func (d *driver) reboot(ctx context.Context) (func(context.Context) error, error) {
	p := d.running()
	d.setAgent(nil)
	if err := p.Kill(); err != nil {
		return nil, err
	}
	for n := len(d.stays) - 1; n >= 0; n-- {
		if err := d.endOne(ctx, n); err != nil {
			return nil, err
		}
	}
	if d.kubelet != nil {
		if err := d.kubelet.Kill(); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(agentrun.Unload(d.config), d.node.Kill()); err != nil {
		return nil, err
	}
	if err := d.editState(func(r *state.Records) { r.Meta.Anchor.BootID = "another" }); err != nil {
		return nil, err
	}
	if err := d.node.Restart(ctx); err != nil {
		return nil, err
	}
	d.oracle.Rebooted()
	d.behind = 0
	if d.kubelet != nil {
		if err := d.kubelet.Start(ctx); err != nil {
			return nil, err
		}
	}
	return nil, d.startAgent(ctx)
}

// killContainerd kills containerd and restarts it before the next step, because no step can do
// without it.
func (d *driver) killContainerd(ctx context.Context) (func(context.Context) error, error) {
	if err := d.node.Kill(); err != nil {
		return nil, err
	}
	return nil, d.node.Restart(ctx)
}

func (d *driver) hang(context.Context) (func(context.Context) error, error) {
	d.relay.Freeze()
	return func(context.Context) error { d.relay.Thaw(); return nil }, nil
}

// fillState fills the filesystem of the agent's state.
func (d *driver) fillState(context.Context) (func(context.Context) error, error) {
	path := filepath.Join(d.config.State.Directory, "full")
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 64<<10))
	}
	if !errors.Is(err, unix.ENOSPC) {
		return nil, err
	}
	return func(context.Context) error { return os.Remove(path) }, nil
}

// fillDisk fills the whole disk. After the fault the disk is below its low threshold again, if
// there was something to remove.
func (d *driver) fillDisk(context.Context) (func(context.Context) error, error) {
	return func(context.Context) error { return d.node.Unfill("full") }, d.node.FillTo("full", 100)
}

func (d *driver) stopAPI(context.Context) (func(context.Context) error, error) {
	return d.cp.APIServer.Start, d.cp.APIServer.Kill()
}
