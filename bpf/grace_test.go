package bpf

import (
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// slowProgram records when it begins and when it ends, and is busy in between for
// a tenth of a second or so, in one and the same run.
func slowProgram(t *testing.T) (program *ebpf.Program, state *ebpf.Map) {
	t.Helper()
	needRoot(t)
	state, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { state.Close() })
	const turns = 1 << 21
	number := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
	function := func(name string, params ...string) *btf.Func {
		proto := &btf.FuncProto{Return: number}
		for _, p := range params {
			proto.Params = append(proto.Params, btf.FuncParam{Name: p, Type: number})
		}
		return &btf.Func{Name: name, Type: proto, Linkage: btf.StaticFunc}
	}
	code := asm.Instructions{
		btf.WithFuncMetadata(asm.LoadMapValue(asm.R6, state.FD(), 0).WithSymbol("slow"), function("slow", "ctx")),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreMem(asm.R6, 0, asm.R1, asm.DWord), // begun
		asm.Mov.Imm(asm.R1, turns),
		asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc, Constant: -1}.WithReference("turn"),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnLoop.Call(),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreMem(asm.R6, 8, asm.R1, asm.DWord), // ended
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
		btf.WithFuncMetadata(asm.FnKtimeGetNs.Call().WithSymbol("turn"), function("turn", "n", "ctx")),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}
	program, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, Instructions: code, License: "GPL"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return program, state
}

// TestWaitForPrograms: a program that has begun before the wait has ended after
// it, however long it takes. That a slot is given to another layer only then
// rests on this.
func TestWaitForPrograms(t *testing.T) {
	program, state := slowProgram(t)
	type marks struct{ Begun, Ended uint64 }
	read := func() (m marks) {
		if err := state.Lookup(uint32(0), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	for proved := 0; proved < 5; {
		if err := state.Put(uint32(0), marks{}); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := program.Run(&ebpf.RunOptions{})
			done <- err
		}()
		for read().Begun == 0 {
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
				done <- nil // it was quick
			default:
				runtime.Gosched()
			}
		}
		before := read()
		if err := waitForPrograms(); err != nil {
			t.Fatal(err)
		}
		if read().Ended == 0 {
			t.Fatal("a program still runs")
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if before.Ended == 0 { // else this process slept while it ran
			proved++
		}
	}
}
