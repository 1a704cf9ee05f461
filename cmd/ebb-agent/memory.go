package main

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// gcPercent trades CPU time, of which the agent uses little, for memory, which it uses on every
// node. The heap may grow by half before it is collected.
const gcPercent = 50

// slim releases what only the start and a reconcile need: the heap of a full read, and the program's
// pages that ran then.
func slim(log *slog.Logger) {
	debug.FreeOSMemory()
	if err := releaseProgram(); err != nil {
		log.Debug("pages of the program stay mapped", "reason", err)
	}
}

// releaseProgram unmaps the pages of the program's code and constants. They are clean and stay in
// the page cache. If pages are needed again, each 64 KiB costs a minor fault. Two thirds are not
// needed again.
func releaseProgram() error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		from, to, ok := programPages(lines.Text(), self)
		if !ok {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("madvise %x: %w", from, errno)
		}
	}
	return lines.Err()
}

// programPages parses a line of /proc/self/maps. ok reports whether it is a private mapping of file
// that is never written to. Pages that were written are not in the file.
func programPages(line, file string) (from, to uintptr, ok bool) {
	var mode, offset, device string
	var inode uint64
	if _, err := fmt.Sscanf(line, "%x-%x %s %s %s %d", &from, &to, &mode, &offset, &device, &inode); err != nil {
		return 0, 0, false
	}
	return from, to, strings.HasSuffix(line, " "+file) && from < to && (mode == "r--p" || mode == "r-xp")
}
