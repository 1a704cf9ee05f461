package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
)

// fsTypes are the filesystems with programs of their own, as mountinfo names
// them. Each has an object to itself, so that none keeps another from loading.
var fsTypes = []string{"ext4", "xfs", "btrfs"}

// The objects share headers/line.h, so the names and layouts in it are theirs
// alike; a test compares them.
type (
	lineValue     = usageExt4Line
	watchValue    = usageExt4Watch
	crossingValue = usageExt4Crossing
	usageCounters = usageExt4UsageCounters
	cpuOffsets    = usageExt4CpuOffsets
)

const (
	mapWatches     = usageExt4MapWatches
	mapCrossings   = usageExt4MapCrossings
	mapUsageCounts = usageExt4MapUsageCounts
	mapCPUOffsets  = usageExt4MapCpuOffsets       // not of btrfs
	mapCounted     = usageBtrfsMapCounted         // of btrfs alone
	mapGivenBack   = usageExt4MapGivenBack        // of ext4 alone
	progCPUOffsets = usageExt4ProgUsageCpuOffsets // not of btrfs
)

// usageSet is what became of the object for one type of filesystem.
type usageSet struct {
	*set              // nil if not attached
	err     error     // why not
	closely *approach // nil where all is watched alike
}

// usageObject is usage_TYPE.bpf.c. Headroom above nearBlocks is far, on ext4.
func usageObject(fsType string, nearBlocks uint32) (*object, error) {
	load, code := loadUsageExt4, _UsageExt4Bytes
	switch fsType {
	case "xfs":
		load, code = loadUsageXfs, _UsageXfsBytes
	case "btrfs":
		load, code = loadUsageBtrfs, _UsageBtrfsBytes
	}
	spec, err := load()
	if err != nil {
		return nil, err
	}
	o := &object{
		name:    objectUsage + fsType,
		code:    code,
		spec:    spec,
		maps:    []string{mapWatches, mapCrossings, mapUsageCounts},
		attach:  usageAttach[fsType],
		modules: []string{fsType},
		needs:   fsType,
	}
	if fsType == "btrfs" {
		o.maps = append(o.maps, mapCounted)
		return o, nil
	}
	o.maps = append(o.maps, mapCPUOffsets)
	o.prepare, o.start = prepareUsage, learnCPUOffsets
	if fsType == "ext4" {
		o.far, o.near = usageExt4ProgUsageDirty, usageExt4ProgUsageReserve
		o.prepare = prepareUsageExt4(nearBlocks)
		o.maps = append(o.maps, mapGivenBack)
	}
	return o, nil
}

// prepareUsage tells the programs how many CPUs keep shares of a counter, how
// large a share can be (compute_batch_value in lib/percpu_counter.c: twice the
// online CPUs, at least 32), and what their tracepoint passes.
func prepareUsage(spec *ebpf.CollectionSpec, types *btf.Cache) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count CPUs: %w", err)
	}
	// Linux 5.19.
	if features.HaveProgramHelper(ebpf.RawTracepoint, asm.FnMapLookupPercpuElem) != nil {
		delete(spec.Programs, progCPUOffsets)
	}
	return errors.Join(
		spec.Variables[usageExt4VarNrCpus].Set(uint32(cpus)),
		spec.Variables[usageExt4VarCounterBatch].Set(uint32(max(32, 2*cpus))),
	)
}

// learnCPUOffsets lets the kernel fill cpu_offsets. Where it cannot, lines work
// with the cautious bound; cpu_offsets itself says so, and Status repeats it.
func learnCPUOffsets(coll *ebpf.Collection) {
	if program := coll.Programs[progCPUOffsets]; program != nil {
		_, _ = program.Run(&ebpf.RunOptions{})
	}
}

// CanWatch reports whether a filesystem of this type can have a line. It stays
// as it is until CatchUp.
func (p *Probes) CanWatch(fsType string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.usage[fsType].set != nil
}

// usageMap returns a map of the object for a type of filesystem.
func (p *Probes) usageMap(fsType, name string) (*ebpf.Map, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.usage[fsType]
	if u.set == nil {
		return nil, fmt.Errorf("filesystem type %q: %w", fsType, notAttached(u.err))
	}
	return u.maps[name], nil
}

// usageMaps returns the maps of that name, of all objects that are attached
// and have one.
func (p *Probes) usageMaps(name string) ([]*ebpf.Map, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*ebpf.Map
	for _, fsType := range fsTypes {
		if u := p.usage[fsType]; u.set != nil && u.maps[name] != nil {
			all = append(all, u.maps[name])
		}
	}
	if all == nil {
		return nil, notAttached(usageError(p.usage))
	}
	return all, nil
}

// usageError says why nothing is watched; nil if something is.
func usageError(usage map[string]usageSet) error {
	var errs []error
	for _, fsType := range fsTypes {
		u := usage[fsType]
		if u.set != nil {
			return nil
		}
		if u.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", fsType, u.err))
		}
	}
	return errors.Join(errs...)
}
