// Package openfiles finds deleted files that still take space because a process has them open.
package openfiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrOwnNamespace is returned if the processes of the node are not visible.
var ErrOwnNamespace = errors.New("the processes of the node are not visible from here (hostPID is off)")

// ErrHidden is returned (wrapped) together with the list if some processes may not be read.
var ErrHidden = errors.New("not to be looked at from here (needs CAP_SYS_PTRACE)")

// StatBlock is the unit of st_blocks (stat(2)), in bytes.
const StatBlock = 512

// Process is a process with deleted files open.
type Process struct {
	PID     int
	Command string // as the process calls itself: any bytes
	Files   uint64 // counted for the first process that has each
	Bytes   uint64
}

type file struct{ dev, ino uint64 }

// Deleted finds the deleted regular files on some devices (st_dev), by process, most bytes first.
// Files on overlay and btrfs, which show devices of their own, all count. proc is the mount point
// of procfs. A process that ends during the scan counts as far as it was read.
func Deleted(ctx context.Context, proc string, devices []uint64) ([]Process, error) {
	if kthreadd, err := os.ReadFile(filepath.Join(proc, "2/comm")); err != nil || strings.TrimSpace(string(kthreadd)) != "kthreadd" {
		return nil, ErrOwnNamespace // process 2 of the first PID namespace is the kernel's
	}
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	seen := make(map[file]bool)
	var list []Process
	hidden := 0
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		p := Process{PID: pid}
		if err := p.read(filepath.Join(proc, e.Name()), devices, seen); errors.Is(err, fs.ErrPermission) {
			hidden++
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return nil, err
		}
		if p.Files > 0 {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b Process) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.PID, b.PID)) })
	if hidden > 0 {
		err = fmt.Errorf("%d processes: %w", hidden, ErrHidden)
	}
	return list, err
}

// hidesDevice reports whether a file is on a filesystem that shows a device of its own in st_dev:
// overlay (Documentation/filesystems/overlayfs.rst, "Inode properties") and btrfs, each subvolume.
func hidesDevice(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && (st.Type == unix.OVERLAYFS_SUPER_MAGIC || st.Type == unix.BTRFS_SUPER_MAGIC)
}

// read adds up a process's deleted files, except those in seen, which an earlier process has open.
func (p *Process) read(dir string, devices []uint64, seen map[file]bool) error {
	open, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return err
	}
	for _, fd := range open {
		var st unix.Stat_t
		path := filepath.Join(dir, "fd", fd.Name())
		if err := unix.Stat(path, &st); errors.Is(err, fs.ErrPermission) {
			return err
		} else if err != nil { // closed meanwhile
			continue
		}
		f := file{st.Dev, st.Ino}
		if st.Nlink > 0 || st.Mode&unix.S_IFMT != unix.S_IFREG || seen[f] || !slices.Contains(devices, f.dev) && !hidesDevice(path) {
			continue
		}
		seen[f] = true
		p.Files++
		p.Bytes += uint64(st.Blocks) * StatBlock
	}
	if p.Files > 0 {
		comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
		p.Command = strings.TrimSpace(string(comm))
	}
	return nil
}
