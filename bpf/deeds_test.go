package bpf

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// envDeed makes the test binary do one thing to a file that no shell can, for
// whoever runs it in a cgroup: "punch FILE OFFSET LENGTH", or "map FILE LENGTH"
// to write through a mapping of holes, or "files DIRECTORY NUMBER SIZE" to write
// over that many files, or "vanish DIRECTORY NUMBER SIZE" to make as many and
// remove each while it is being written back, so that a worker of the kernel has
// it last.
const envDeed = "EBB_BPF_TEST_DEED"

func init() {
	deed := os.Getenv(envDeed)
	if deed == "" {
		return
	}
	if err := do(deed); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", deed, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func do(deed string) error {
	var what, path string
	var a, b int64
	if _, err := fmt.Sscan(deed+" 0", &what, &path, &a, &b); err != nil {
		return err
	}
	if what == "files" || what == "vanish" {
		for n := range a {
			if err := overwrite(fmt.Sprintf("%s/%d", path, n), b, what == "vanish"); err != nil {
				return err
			}
		}
		return nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	switch what {
	case "punch":
		return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, a, b)
	case "map":
		if err := f.Truncate(a); err != nil {
			return err
		}
		page, err := unix.Mmap(int(f.Fd()), 0, int(a), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		for at := 0; at < len(page); at += os.Getpagesize() {
			page[at] = 1
		}
		return unix.Munmap(page)
	}
	return fmt.Errorf("no such deed")
}

func overwrite(path string, size int64, vanish bool) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, size)); err != nil || !vanish {
		return err
	}
	if err := unix.SyncFileRange(int(f.Fd()), 0, size, unix.SYNC_FILE_RANGE_WRITE); err != nil {
		return err
	}
	return os.Remove(path)
}
