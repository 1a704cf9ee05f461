package bpftest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/ebb-agent/ebb/bpf"
)

// FakeWriters has the methods of [bpf.Probes] for writers, with counts that a
// test sets.
type FakeWriters struct {
	mu   sync.Mutex
	list []bpf.Writer
	devs []uint64
	err  error
}

// SetWriters replaces the counts.
func (f *FakeWriters) SetWriters(list ...bpf.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = slices.Clone(list)
}

// FailWriters makes Writers return err.
func (f *FakeWriters) FailWriters(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// CountedOn returns the filesystems that count, in order.
func (f *FakeWriters) CountedOn() []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.devs))
}

// Wrote adds a new writer that took bytes, if the filesystem counts.
func (f *FakeWriters) Wrote(dev, cgroup, bytes uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.devs, dev) {
		f.list = append(f.list, bpf.Writer{Cgroup: cgroup, Grown: bytes})
	}
}

// EndWriter marks the writer of a cgroup as ended.
func (f *FakeWriters) EndWriter(cgroup, bootNS uint64, path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.list {
		if f.list[i].Cgroup == cgroup {
			f.list[i].EndedNS, f.list[i].Path = bootNS, path
		}
	}
}

// CanCountWriters is as in [bpf.Probes].
func (f *FakeWriters) CanCountWriters(fsType string) bool { return slices.Contains(fsTypes, fsType) }

// CountWriters is as in [bpf.Probes].
func (f *FakeWriters) CountWriters(devs ...uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.devs = slices.Clone(devs)
	return nil
}

// Writers is as in [bpf.Probes].
func (f *FakeWriters) Writers() ([]bpf.Writer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list), f.err
}

// ForgetWriters is as in [bpf.Probes].
func (f *FakeWriters) ForgetWriters(ended ...bpf.Writer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range ended {
		if e.EndedNS == 0 {
			return fmt.Errorf("forget writers: cgroup %d has not ended", e.Cgroup)
		}
		f.list = slices.DeleteFunc(f.list, func(w bpf.Writer) bool { return w.Cgroup == e.Cgroup })
	}
	return nil
}
