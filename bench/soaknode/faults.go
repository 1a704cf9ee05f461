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

// fault is one that is on, while steps go on.
type fault struct {
	kind  string
	until int // the step after which it is mended
	mend  func(context.Context) error
	ended func(time.Time) // tells the oracle
}

// turnFault mends what is on when it is time, and begins the next one.
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
		return d.cp == nil && k.name == "API server away" || d.memory.limit == "" && k.name == "memory limit" ||
			k.name == "reboot" && d.random.IntN(3) > 0 // it ends all that stays
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

// endFault mends what is on and waits until the agent is ready again.
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

// setClock moves what the agent wrote by the clock: to the next agent, records that are two
// days ahead look the same as a clock that was set back by two days. The clock is never ahead
// of the records: ends of containers would count as later than they were, by design.
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

// editState changes what the agent has saved, while none runs.
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

// reboot is all of one but the machine's: every process is killed, what the kernel knew is
// gone, and the agent finds the state of another boot.
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
	return nil, d.startAgent(ctx)
}

// killContainerd has it back before the next step: nothing can be done without it.
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

// fillState leaves no room where the agent keeps its state.
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

// fillDisk leaves no room for anybody. The disk is low again when it is over, if there was
// something to remove.
func (d *driver) fillDisk(context.Context) (func(context.Context) error, error) {
	return func(context.Context) error { return d.node.Unfill("full") }, d.node.FillTo("full", 100)
}

func (d *driver) stopAPI(context.Context) (func(context.Context) error, error) {
	return d.cp.APIServer.Start, d.cp.APIServer.Kill()
}
