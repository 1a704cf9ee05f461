package program

import (
	"log/slog"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// LimitMemory tells Go's runtime what its container may use, so that the heap is
// collected more often before the kernel kills the program. A tenth is left for what
// Go does not count: the kernel's own memory and pages of files. GOMEMLIMIT in the
// environment wins, and where there is no limit nothing changes.
func LimitMemory(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := containerMemory("/")
	if limit == math.MaxInt64 {
		return
	}
	debug.SetMemoryLimit(limit / 10 * 9)
	log.Debug("memory limit", "bytes", limit/10*9, "reason", "limit of the container", "container", limit)
}

// containerMemory is the lowest limit on the memory of this process, or MaxInt64. A
// cgroup is bound by those above it, too. What cannot be read limits nothing: root is
// "/" but in tests.
func containerMemory(root string) int64 {
	limit := int64(math.MaxInt64)
	mounts, _ := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	groups, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for line := range strings.Lines(string(mounts)) {
		m, ok := memoryMount(line)
		if !ok {
			continue
		}
		within, ok := m.within(string(groups))
		for ok {
			limit = min(limit, readLimit(filepath.Join(root, m.point, within, m.file)))
			if within == "/" {
				break
			}
			within = path.Dir(within)
		}
	}
	return limit
}

// hierarchy is a mount of cgroups that can limit memory.
type hierarchy struct {
	root, point string
	file        string // with the limit
}

// memoryMount reads a line of mountinfo.
func memoryMount(line string) (m hierarchy, ok bool) {
	// ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS… - TYPE SOURCE OPTIONS
	before, after, _ := strings.Cut(line, " - ")
	fields, kind := strings.Fields(before), strings.Fields(after)
	if len(fields) < 5 || len(kind) < 3 {
		return m, false
	}
	m.root, m.point = fields[3], fields[4]
	switch kind[0] {
	case "cgroup2":
		m.file = "memory.max"
		return m, true
	case "cgroup":
		m.file = "memory.limit_in_bytes"
		return m, slices.Contains(strings.Split(kind[2], ","), "memory")
	}
	return m, false
}

// within is where this process's cgroup is in a mount: at its top, if it was mounted
// for this very container, whose place in the whole hierarchy may be out of sight.
func (m hierarchy) within(groups string) (string, bool) {
	for line := range strings.Lines(groups) {
		// ID:CONTROLLERS:PATH
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		v2 := parts[0] == "0" && parts[1] == ""
		if v2 != (m.file == "memory.max") || !v2 && !slices.Contains(strings.Split(parts[1], ","), "memory") {
			continue
		}
		rest, below := strings.CutPrefix(path.Clean(parts[2]), strings.TrimSuffix(m.root, "/"))
		if !below || rest != "" && rest[0] != '/' {
			rest = ""
		}
		return path.Clean("/" + rest), true
	}
	return "", false
}

// readLimit reads a limit. No file, "max" and v1's largest number limit nothing.
func readLimit(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return math.MaxInt64
	}
	v, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || v <= 0 || v >= math.MaxInt64&^0xffff {
		return math.MaxInt64
	}
	return v
}
