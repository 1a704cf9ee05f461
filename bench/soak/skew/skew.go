// Package skew starts a program whose wall clock is wrong. CLOCK_REALTIME has no
// namespace, and a Go program asks no library that could be preloaded: it calls the
// kernel's vDSO. So the program is stopped before its first instruction, and
// clock_gettime in its own copy of the vDSO is replaced by one that adds an offset to
// CLOCK_REALTIME. The binary is the one that is shipped, and the monotonic clock stays
// true, as it does where a wall clock is wrong.
//
// Sources: vdso(7), ptrace(2), proc_pid_auxv(5), proc_pid_mem(5);
// arch/x86/entry/vdso/vma.c (VM_MAYWRITE, so that debuggers can set breakpoints).
package skew

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Start starts a command with its clock ahead by an offset, in whole seconds. The caller must have
// locked its goroutine to a thread, and must stay on that thread until the program has ended.
func Start(cmd *exec.Cmd, offset time.Duration) error {
	if offset == 0 {
		return cmd.Start()
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Ptrace = true // it stops when it has been loaded
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := change(cmd.Process.Pid, int64(offset/time.Second)); err != nil {
		return errors.Join(fmt.Errorf("give %s a wrong clock: %w", cmd.Path, err), cmd.Process.Kill(), cmd.Wait())
	}
	return nil
}

func change(pid int, seconds int64) error {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	if !status.Stopped() {
		return fmt.Errorf("it did not stop: %#x", status)
	}
	base, err := vdso(pid)
	if err != nil {
		return err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	image := make([]byte, 16<<10)
	n, err := memory.ReadAt(image, base)
	if n < 4096 {
		return fmt.Errorf("read the vDSO: %w", err)
	}
	at, err := clockGettime(image[:n])
	if err != nil {
		return err
	}
	if _, err := memory.WriteAt(code(seconds), base+at); err != nil {
		return fmt.Errorf("write the vDSO: %w", err)
	}
	return syscall.PtraceDetach(pid)
}

// vdso returns the address of a process's vDSO.
func vdso(pid int) (int64, error) {
	const sysinfoEhdr = 33 // AT_SYSINFO_EHDR
	auxv, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0, err
	}
	for ; len(auxv) >= 16; auxv = auxv[16:] {
		if binary.LittleEndian.Uint64(auxv) == sysinfoEhdr {
			return int64(binary.LittleEndian.Uint64(auxv[8:])), nil
		}
	}
	return 0, errors.New("it has no vDSO")
}

// clockGettime returns the function's offset in the vDSO, if there is room for ours.
func clockGettime(image []byte) (int64, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("read the vDSO: %w", err)
	}
	if f.Machine != elf.EM_X86_64 {
		return 0, fmt.Errorf("the replacement is written for x86-64, not for %v", f.Machine)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("read the vDSO: %w", err)
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && int(s.Size) >= len(code(0)) {
			return int64(s.Value), nil
		}
	}
	return 0, errors.New("the vDSO has no clock_gettime with room for another")
}

// code is a clock_gettime(clock, *timespec) that adds seconds to CLOCK_REALTIME.
func code(seconds int64) []byte {
	c := []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 13, // jnz ret
		0x48, 0xb9, // mov rcx, seconds
	}
	c = binary.LittleEndian.AppendUint64(c, uint64(seconds))
	return append(c,
		0x48, 0x01, 0x0e, // add [rsi], rcx
		0xc3, // ret
	)
}
