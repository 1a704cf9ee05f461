package kubelet

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ticks are the kernel's for user space (USER_HZ), on every architecture that
// Kubernetes runs on.
const ticks = 100

// Started is when the process began.
func (p *Process) Started() (time.Time, error) {
	stat, err := readAtMost(p.file("stat"), 4096)
	if err != nil {
		return time.Time{}, err
	}
	sinceBoot, err := startTime(string(stat))
	if err != nil {
		return time.Time{}, fmt.Errorf("process %d: %w", p.PID, err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return time.Time{}, err
	}
	return time.Now().Add(sinceBoot - time.Duration(now.Nano())), nil
}

// startTime reads field 22 of proc_pid_stat(5). The second field is a name in
// parentheses, and may have any in it.
func startTime(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const at = 22 - 3 // the first one here is the third
	if len(fields) <= at {
		return 0, errors.New("stat has too few fields")
	}
	n, err := strconv.ParseUint(fields[at], 10, 62)
	if err != nil || n > uint64(1<<62)/uint64(time.Second/ticks) {
		return 0, fmt.Errorf("stat: start time %.30q", fields[at])
	}
	return time.Duration(n) * (time.Second / ticks), nil
}

// sameMoment allows for clocks that differ a little.
const sameMoment = time.Second

// ChangedSince names the files of the configuration that were changed after the
// process began: it does not run with what they say now.
func (p *Process) ChangedSince() []string {
	started, err := p.Started()
	if err != nil {
		return nil // not known, and nothing is claimed
	}
	flags := p.Flags()
	var files, changed []string
	if file := last(flags, "config"); file != "" {
		files = append(files, file)
	}
	if dir := last(flags, "config-dir"); dir != "" {
		if p.walk(dir, maxDepth, &files) == nil {
			files = append(files, dir) // a file was added or taken away
		}
	}
	for _, file := range files {
		f, err := p.Open(file, unix.O_PATH)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		f.Close()
		if err == nil && info.ModTime().After(started.Add(sameMoment)) {
			changed = append(changed, clean(file))
		}
	}
	return changed
}
