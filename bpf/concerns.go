package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// concerns holds the four concerns. Each owns its part of the kernel's records and
// guards it with a lock of its own.
type concerns struct {
	lastuse
	usage
	writers
	heat
}

// concern is what [Probes] and reports need of each concern.
type concern interface {
	parts() []part
	count(*Counters) error
	status() []ProgramStatus
	close() error
}

func (c *concerns) all() []concern {
	return []concern{&c.lastuse, &c.usage, &c.writers, &c.heat}
}

// part is one unit of loading: it loads, fails and waits for its module
// independently.
type part struct {
	name string
	err  error // why it is not attached; nil if it is, or was not tried yet
	load func(*btf.Cache) error
}

// parts lists the parts of all concerns, dependencies first.
func (c *concerns) parts() (all []part) {
	for _, one := range c.all() {
		all = append(all, one.parts()...)
	}
	return all
}

// unusable returns why neither last use nor usage works, now or later; nil if one
// does. A part that waits for a module may work later, unless the process may not
// load programs.
func (c *concerns) unusable() error {
	lastuse, usage := c.lastuse.err, c.usage.reason()
	if lastuse == nil || usage == nil {
		return nil
	}
	err := fmt.Errorf("last use: %w; usage: %w", lastuse, usage)
	if waits(err) != nil && !errors.Is(err, ErrNotPermitted) {
		return nil
	}
	return err
}

// Counters sums the counters of all objects over all CPUs. An object that is not
// attached counts as 0.
func (c *concerns) Counters() (Counters, error) {
	counters := Counters{Missed: map[string]uint64{}}
	for _, one := range c.all() {
		if err := one.count(&counters); err != nil {
			return Counters{}, err
		}
	}
	return counters, nil
}

// Status lists every program, attached or not, in a stable order.
func (c *concerns) Status() (all []ProgramStatus) {
	for _, one := range c.all() {
		all = append(all, one.status()...)
	}
	return all
}

func (c *concerns) close() error {
	var errs []error
	for _, one := range c.all() {
		errs = append(errs, one.close())
	}
	return errors.Join(errs...)
}

// attachment is the result of loading an object: its set, or why there is none.
type attachment struct {
	*set
	err error
}

// close closes the set and forgets it. If there is no set, the reason is kept.
func (a *attachment) close() error {
	if a.set == nil {
		return nil
	}
	s := a.set
	a.set = nil
	return s.close()
}

// countersOf reads the map called name, which has one value for each CPU, and
// stores the object's missed runs in c.Missed. It returns nil if the object is not
// attached.
func countersOf[V any](a attachment, object, name string, c *Counters) (cpus []V, err error) {
	if a.set == nil {
		return nil, nil
	}
	if c.Missed[object], err = a.missed(); err == nil {
		err = a.maps[name].Lookup(uint32(0), &cpus)
	}
	if err != nil {
		return nil, fmt.Errorf("read counters of %s: %w", object, err)
	}
	return cpus, nil
}

// missed returns how many runs of the set's programs the kernel skipped.
func (s *set) missed() (n uint64, err error) {
	programs := slices.Collect(maps.Values(s.programs))
	if s.near != nil {
		programs = append(programs, s.near)
	}
	for _, program := range programs {
		stats, err := program.Stats()
		if err != nil {
			return 0, err
		}
		n += stats.RecursionMisses
	}
	return n, nil
}

// statusOf lists the programs of an object. limit describes how attached
// programs are less exact; "" if they are exact.
func (a attachment) statusOf(object string, attach map[string]string, limit string) []ProgramStatus {
	var out []ProgramStatus
	for _, name := range slices.Sorted(maps.Keys(attach)) {
		status := ProgramStatus{Object: object, Name: name, AttachPoint: attach[name], Reason: limit}
		switch {
		case a.err != nil:
			status.Reason, status.Waits = a.err.Error(), waits(a.err) != nil
		case a.set == nil:
			status.Reason = "closed"
		case a.links[name] != nil:
			status.Attached, status.Adopted = true, a.adopted
		case a.near != nil:
			status.Idle = "attached only while a filesystem is near its watermark"
		default:
			status.Idle = "does not fit this kernel, where another program does its work"
		}
		out = append(out, status)
	}
	return out
}
