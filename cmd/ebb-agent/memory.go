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

// gcPercent trades some CPU time, of which the agent hardly uses any, for memory,
// which it has on every node: the heap may grow by half before it is collected.
const gcPercent = 50

// slim gives back what only the start needs: the heap in which all was read for the first
// time, and the pages of this program that did it.
func slim(log *slog.Logger) {
	debug.FreeOSMemory()
	if err := releaseProgram(); err != nil {
		log.Debug("pages of the program stay mapped", "reason", err)
	}
}

// releaseProgram unmaps the pages of the program's code and constants. They are
// clean and stay in the page cache: what is needed again costs a minor fault for
// each 64 KiB. Two thirds are not.
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

// programPages reads a line of /proc/self/maps; ok if it is a private mapping of
// that file which is never written to. What was written is not in the file.
func programPages(line, file string) (from, to uintptr, ok bool) {
	var mode, offset, device string
	var inode uint64
	if _, err := fmt.Sscanf(line, "%x-%x %s %s %s %d", &from, &to, &mode, &offset, &device, &inode); err != nil {
		return 0, 0, false
	}
	return from, to, strings.HasSuffix(line, " "+file) && from < to && (mode == "r--p" || mode == "r-xp")
}
