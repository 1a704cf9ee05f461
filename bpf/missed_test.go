package bpf

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// interrupted is a program that comes upon its own tracepoint while it runs: a page
// fault in the kernel, in which it reads where nothing is.
func interrupted(t *testing.T) *ebpf.Program {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.RawTracepoint, License: "GPL",
		Instructions: asm.Instructions{
			asm.Mov.Reg(asm.R1, asm.RFP),
			asm.Add.Imm(asm.R1, -8),
			asm.Mov.Imm(asm.R2, 8),
			asm.Mov.Imm(asm.R3, 16),
			asm.FnProbeReadUser.Call(),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "page_fault_kernel", Program: program})
	if err != nil {
		t.Skipf("SKIPPED: no tracepoint of page faults in the kernel: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	return program
}

// faultInKernel has the kernel write where a page is still missing.
func faultInKernel() error {
	const size = 1 << 20
	page, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	defer unix.Munmap(page)
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		return err
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	for at := 0; at < size; at += 4096 {
		_, err1 := unix.Write(fds[1], []byte{1})
		_, err2 := unix.Read(fds[0], page[at:at+1])
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
	}
	runtime.KeepAlive(page)
	return nil
}

// TestMissedRunsAreLost: what the kernel did not run, because the program was
// running, is a loss, and is reported for the object that it belongs to.
func TestMissedRunsAreLost(t *testing.T) {
	p := load(t, Options{})
	lost := func(event string) uint64 {
		all := counters(t, p).Lost()
		i := slices.IndexFunc(all, func(c Count) bool { return c.Event == event })
		if i < 0 {
			t.Fatalf("no %s in %+v", event, all)
		}
		return all[i].Count
	}
	for _, event := range []string{"lastuse_missed", "usage_missed", "writers_missed", "heat_missed"} {
		if n := lost(event); n != 0 {
			t.Errorf("%s: %d", event, n)
		}
	}
	program := interrupted(t)
	p.lastuse.programs["interrupted"] = program // closed with the set
	p.usage.on["xfs"].programs["interrupted"] = mustClone(t, program)
	for range 10 {
		if err := faultInKernel(); err != nil {
			t.Fatal(err)
		}
	}
	stats, err := program.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if stats.RecursionMisses == 0 {
		t.Skip("SKIPPED: this kernel lets a program interrupt itself")
	}
	if n := lost("lastuse_missed"); n < stats.RecursionMisses {
		t.Errorf("of last use %d were missed, want at least %d", n, stats.RecursionMisses)
	}
	if n := lost("usage_missed"); n < stats.RecursionMisses {
		t.Errorf("of usage %d were missed, want at least %d", n, stats.RecursionMisses)
	}
	if n := lost("writers_missed"); n != 0 {
		t.Errorf("of writers %d were missed", n)
	}
}

func mustClone(t *testing.T, program *ebpf.Program) *ebpf.Program {
	t.Helper()
	clone, err := program.Clone()
	if err != nil {
		t.Fatal(err)
	}
	return clone
}

// TestEachProgramHasItsOwnAccount: two programs can be at work on a CPU at once, on
// kernels that preempt them, so that no two may share what they have not booked.
func TestEachProgramHasItsOwnAccount(t *testing.T) {
	users := map[int64]string{}
	for _, fsType := range writersTypes[1:] {
		o, err := writersObject(fsType, 0)
		if err != nil {
			t.Fatal(err)
		}
		for name, program := range o.spec.Programs {
			for _, account := range accountsOf(t, name, program.Instructions) {
				if other, taken := users[account]; taken && other != name {
					t.Errorf("%s and %s share account %d", name, other, account)
				}
				users[account] = name
			}
		}
	}
	spec, err := loadWriters()
	if err != nil {
		t.Fatal(err)
	}
	if n := int(spec.Maps[writersMapAccounts].MaxEntries); len(users) != n {
		t.Errorf("%d accounts, of which are used: %v", n, users)
	}
}

// accountsOf finds the keys that a program looks accounts up by: the last number
// that was stored in the key's place before the map is named.
func accountsOf(t *testing.T, name string, code asm.Instructions) (keys []int64) {
	t.Helper()
	for i := range code {
		if !code[i].IsLoadFromMap() || code[i].Reference() != writersMapAccounts {
			continue
		}
		key, found := storedBefore(code[:i])
		if !found {
			t.Fatalf("%s: no number is stored before accounts are looked up:\n%v", name, code[max(0, i-12):i+2])
		}
		keys = append(keys, key)
	}
	return keys
}

// storedBefore follows the key's address, which is put into R2, back to the number.
func storedBefore(code asm.Instructions) (key int64, found bool) {
	for i := len(code) - 1; i > 0; i-- {
		if code[i].OpCode != asm.Add.Op(asm.ImmSource) || code[i].Dst != asm.R2 {
			continue
		}
		offset := int16(code[i].Constant)
		for j := len(code) - 1; j >= 0; j-- {
			if s := code[j]; s.OpCode.Class().IsStore() && s.Dst == asm.RFP && s.Offset == offset {
				if s.OpCode.Class() == asm.StClass {
					return s.Constant, true
				}
				for k := j - 1; k >= 0; k-- {
					if m := code[k]; m.Dst == s.Src && m.OpCode.Class().IsALU() && m.OpCode.ALUOp() == asm.Mov && m.OpCode.Source() == asm.ImmSource {
						return m.Constant, true
					}
				}
			}
		}
		return 0, false
	}
	return 0, false
}
