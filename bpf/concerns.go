package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf/btf"
)

// concerns are what the programs are there for. Each owns its part of the
// kernel's record and guards it with a lock of its own.
type concerns struct {
	lastuse
	usage
	writers
	heat
}

// concern is how [Probes] and reports see all of them alike.
type concern interface {
	parts() []part
	count(*Counters) error
	status() []ProgramStatus
	close() error
}

func (c *concerns) all() []concern {
	return []concern{&c.lastuse, &c.usage, &c.writers, &c.heat}
}

// part is what loads, fails, and waits for its module, by itself.
type part struct {
	name string
	err  error // why it is not attached; nil if it is, or was not tried yet
	load func(*btf.Cache) error
}

// parts lists them, what others depend on first.
func (c *concerns) parts() (all []part) {
	for _, one := range c.all() {
		all = append(all, one.parts()...)
	}
	return all
}

// unusable is why neither last use nor usage can be had, now or later. Waiting
// for a module helps nobody who may not load programs.
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

// Counters sums the counters of all objects over all CPUs. Those of an object
// that is not attached are 0.
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

// attachment is what became of an object: its set, or why there is none.
type attachment struct {
	*set
	err error
}

// close forgets the set, and keeps the reason if there was none.
func (a *attachment) close() error {
	if a.set == nil {
		return nil
	}
	s := a.set
	a.set = nil
	return s.close()
}

// countersOf enters how often programs were not run, and returns the counters that
// the map has, one for each CPU; nothing if the object is not attached.
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

// missed sums what the kernel did not run of a set's programs.
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

// statusOf lists the programs of an object. A limit says in what way those that
// are attached are less exact.
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
