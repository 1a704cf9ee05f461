package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// waitForPrograms returns once every program that runs now has ended. It uses
// the wait that the kernel does when a map inside of a map is replaced
// (maybe_wait_bpf_programs, kernel/bpf/syscall.c, since Linux 4.20). That wait
// is synchronize_rcu, and a tracing program runs inside an RCU read-side section
// (__bpf_trace_run, kernel/trace/bpf_trace.c). membarrier(2) would wait as well,
// but fails on kernels that were started with nohz_full.
func waitForPrograms() (err error) {
	inner := &ebpf.MapSpec{Name: "ebb_grace", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	in, err := ebpf.NewMap(inner)
	if err != nil {
		return fmt.Errorf("make map: %w", err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "ebb_grace", Type: ebpf.ArrayOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: inner,
	})
	if err != nil {
		return fmt.Errorf("make map of maps: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.Put(uint32(0), in); err != nil {
		return fmt.Errorf("replace a map: %w", err)
	}
	return nil
}
