package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
)

const objectUsage = "usage_" // followed by the type of filesystem

// fsTypes are the filesystems with programs of their own, as mountinfo names them.
// Each has its own object, so that one that fails to load does not affect the
// others.
var fsTypes = []string{"ext4", "xfs", "btrfs"}

// usageType is what is particular to the watermarks of one type of filesystem.
type usageType struct {
	load      func() (*ebpf.CollectionSpec, error)
	code      []byte
	attach    map[string]string // program to tracepoint
	far, near string            // programs of attach, see object; or ""
	maps      []string          // besides those that all types have

	// blocksAlone: the filesystem counts no inodes, and f_bfree less f_bavail is
	// not a reserve for root.
	blocksAlone bool

	prepare func(spec *ebpf.CollectionSpec, types *btf.Cache, nearBlocks uint32) error
}

var usageTypes = map[string]usageType{
	"ext4": {
		load: loadUsageExt4, code: _UsageExt4Bytes,
		attach: map[string]string{
			usageExt4ProgUsageDirty:    "writeback_dirty_folio",
			usageExt4ProgUsageReserve:  "ext4_da_reserve_space",
			usageExt4ProgUsageAllocate: "ext4_allocate_blocks",
			usageExt4ProgUsageInode:    "ext4_allocate_inode",
			usageExt4ProgUsageGiveBack: "ext4_free_blocks",
		},
		far: usageExt4ProgUsageDirty, near: usageExt4ProgUsageReserve,
		maps:    []string{mapCPUOffsets},
		prepare: prepareUsageExt4,
	},
	"xfs": {
		load: loadUsageXfs, code: _UsageXfsBytes,
		attach: map[string]string{
			usageXfsProgUsageTrans:    "xfs_trans_free",
			usageXfsProgUsageDelalloc: "xfs_iomap_alloc",
		},
		maps:    []string{mapCPUOffsets},
		prepare: prepareUsage,
	},
	"btrfs": {
		load: loadUsageBtrfs, code: _UsageBtrfsBytes,
		attach: map[string]string{
			usageBtrfsProgUsagePromise: "update_bytes_may_use",
			usageBtrfsProgUsageCommit:  "btrfs_transaction_commit",
			usageBtrfsProgUsagePin:     "update_bytes_pinned",
		},
		maps:        []string{mapCounted},
		blocksAlone: true,
	},
}

// The objects share headers/watermark.h, so its names and layouts are the same in
// all of them; a test compares them.
type (
	watermarkValue = usageExt4Watermark
	watchValue     = usageExt4Watch
	crossingValue  = usageExt4Crossing
	usageCounters  = usageExt4UsageCounters
	cpuOffsets     = usageExt4CpuOffsets
)

const (
	mapWatches     = usageExt4MapWatches
	mapCrossings   = usageExt4MapCrossings
	mapUsageCounts = usageExt4MapUsageCounts
	mapCPUOffsets  = usageExt4MapCpuOffsets
	mapCounted     = usageBtrfsMapCounted
	mapGivenBack   = usageExt4MapGivenBack
	progCPUOffsets = usageExt4ProgUsageCpuOffsets
)

// usageObject returns usage_TYPE.bpf.c. A filesystem with more headroom than
// nearBlocks can count as far from its watermark.
func usageObject(fsType string, nearBlocks uint32) (*object, error) {
	about := usageTypes[fsType]
	spec, err := about.load()
	if err != nil {
		return nil, err
	}
	o := &object{
		name:   objectUsage + fsType,
		code:   about.code,
		spec:   spec,
		maps:   append([]string{mapWatches, mapCrossings, mapUsageCounts, mapGivenBack}, about.maps...),
		attach: about.attach,
		far:    about.far,
		near:   about.near,
		needs:  fsType,
		start:  learnCPUOffsets,
	}
	if about.prepare != nil {
		o.prepare = func(spec *ebpf.CollectionSpec, types *btf.Cache) error {
			return about.prepare(spec, types, nearBlocks)
		}
	}
	return o, nil
}

// prepareUsage sets how many CPUs keep shares of a counter, and how large a share
// can be (compute_batch_value in lib/percpu_counter.c: twice the online CPUs, at
// least 32). It leaves out the program that learns the CPU offsets if the kernel
// lacks its helper.
func prepareUsage(spec *ebpf.CollectionSpec, _ *btf.Cache, _ uint32) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count CPUs: %w", err)
	}
	// The helper exists since Linux 5.19.
	if features.HaveProgramHelper(ebpf.RawTracepoint, asm.FnMapLookupPercpuElem) != nil {
		delete(spec.Programs, progCPUOffsets)
	}
	return errors.Join(
		spec.Variables[usageExt4VarNrCpus].Set(uint32(cpus)),
		spec.Variables[usageExt4VarCounterBatch].Set(uint32(max(32, 2*cpus))),
	)
}

// learnCPUOffsets runs the program that fills cpu_offsets, where an object has one.
// If that fails, watermarks use the cautious bound; cpu_offsets itself shows that, and
// Status repeats it.
func learnCPUOffsets(coll *ebpf.Collection) {
	if program := coll.Programs[progCPUOffsets]; program != nil {
		_, _ = program.Run(&ebpf.RunOptions{})
	}
}

// approximation returns why watermarks use the cautious bound; "" if they do not.
func approximation(s *set) string {
	if s == nil || s.maps[mapCPUOffsets] == nil {
		return ""
	}
	var offsets cpuOffsets
	err := s.maps[mapCPUOffsets].Lookup(uint32(0), &offsets)
	if err != nil {
		return "cpu offsets: " + err.Error()
	}
	if offsets.Known == 0 {
		return "counters cannot be summed over CPUs: crossings come early"
	}
	return ""
}
