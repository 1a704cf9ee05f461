package bpf

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// way is a way of taking space, a little with each step.
type way func(t *testing.T, fs *filesystem) (step func() error)

// ways are all there are. Those with reflinks are not for ext4.
var ways = map[string]way{
	"buffered": writer(0),
	"direct":   writer(unix.O_DIRECT),
	"synced":   writer(unix.O_SYNC),
	"mapped": func(t *testing.T, fs *filesystem) func() error {
		f, at := fs.open(t, 0), 0
		const size = 64 << 20
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		holes, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Munmap(holes) })
		return func() error {
			holes[at] = 1
			at += 4096
			return nil
		}
	},
	"fallocate": func(t *testing.T, fs *filesystem) func() error {
		f, size := fs.open(t, 0), int64(0)
		return func() error {
			size += 4096
			return unix.Fallocate(int(f.Fd()), 0, size-4096, 4096)
		}
	},
	"fallocate of files": func(t *testing.T, fs *filesystem) func() error {
		return func() error {
			fs.take(t, 16)
			return nil
		}
	},
	"truncate and write": func(t *testing.T, fs *filesystem) func() error {
		f, size, block := fs.open(t, 0), int64(0), pages(t, 1)
		return func() error {
			size += 1 << 20
			if err := f.Truncate(size); err != nil {
				return err
			}
			_, err := f.WriteAt(block, size-4096)
			return err
		}
	},
	"copy": func(t *testing.T, fs *filesystem) func() error {
		from, to := fs.filled(t, 1), fs.open(t, 0)
		// Off the end by one: what is not a whole block cannot be shared.
		return func() error {
			in := int64(0)
			_, err := unix.CopyFileRange(int(from.Fd()), &in, int(to.Fd()), nil, 4095, 0)
			return err
		}
	},
	"tiny files": func(t *testing.T, fs *filesystem) func() error {
		text := make([]byte, 1900)
		return func() error { return os.WriteFile(fs.path(), text, 0o644) }
	},
	"directories": func(t *testing.T, fs *filesystem) func() error {
		return func() error { return os.Mkdir(fs.path(), 0o755) }
	},
	"unpacking": func(t *testing.T, fs *filesystem) func() error {
		sizes, n := []int{100, 5000, 70000, 300, 12000}, 0
		return func() error {
			n++
			dir := fs.path()
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			if err := os.Symlink(dir, fs.path()); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "f"), make([]byte, sizes[n%len(sizes)]), 0o644)
		}
	},
	"write into reflink": func(t *testing.T, fs *filesystem) func() error {
		f, at, block := fs.clone(t, 16384), int64(0), pages(t, 1)
		return func() error {
			// Every other block, so that each is an extent of its own.
			at += 8192
			_, err := f.WriteAt(block, at)
			return err
		}
	},
	"direct write into reflink": func(t *testing.T, fs *filesystem) func() error {
		f, at, block := fs.clone(t, 16384), int64(0), pages(t, 1)
		f = reopen(t, f, unix.O_DIRECT)
		return func() error {
			at += 8192
			_, err := f.WriteAt(block, at)
			return err
		}
	},
	"mapped reflink": func(t *testing.T, fs *filesystem) func() error {
		f, at := fs.clone(t, 16384), 0
		shared, err := unix.Mmap(int(f.Fd()), 0, 16384*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Munmap(shared) })
		return func() error {
			at += 8192
			shared[at] = 1
			return nil
		}
	},
}

// writer appends a block at a time.
func writer(flags int) way {
	return func(t *testing.T, fs *filesystem) func() error {
		f, block := fs.open(t, flags), pages(t, 1)
		return func() error {
			_, err := f.Write(block)
			return err
		}
	}
}

// filled makes a file of so many blocks that are on the disk.
func (fs *filesystem) filled(t testing.TB, blocks int) *os.File {
	t.Helper()
	f := fs.open(t, 0)
	for range blocks / 16 {
		if _, err := f.Write(make([]byte, 16*4096)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Write(make([]byte, blocks%16*4096)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return f
}

// clone makes a file that shares all its blocks with another.
func (fs *filesystem) clone(t testing.TB, blocks int) *os.File {
	t.Helper()
	from, to := fs.filled(t, blocks), fs.open(t, 0)
	if err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd())); err != nil {
		t.Fatalf("reflink: %v", err)
	}
	fs.sync(t)
	return to
}

func reopen(t testing.TB, f *os.File, flags int) *os.File {
	t.Helper()
	again, err := os.OpenFile(f.Name(), os.O_RDWR|flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	return again
}

// sync makes what statfs says true.
func (fs *filesystem) sync(t testing.TB) {
	t.Helper()
	fd, err := unix.Open(fs.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Syncfs(fd); err != nil {
		t.Fatal(err)
	}
}

// TestNeverLateByAnyWay: on xfs and btrfs, the step that brings free space to
// the line raises the event, before anything is synced; and it is not early by
// more than what is in flight.
func TestNeverLateByAnyWay(t *testing.T) {
	p := load(t, Options{})
	for _, kind := range []string{"xfs", "btrfs"} {
		for name, start := range ways {
			t.Run(kind+"/"+name, func(t *testing.T) {
				fs := newKind(t, kind)
				step := start(t, fs)
				fs.sync(t)
				free, _ := fs.free(t)
				line := Line{RaiseFree: free - 400, RearmFree: free - 300}
				setLine(t, p, fs, line)
				defer clearLine(t, p, fs)
				before := now(t)
				crossByAnyWay(t, p, fs, line.RaiseFree, name, step)
				got := nextCrossing(t, p)
				if got.Dev != fs.dev || got.Inodes || got.BootNS < before || got.BootNS > now(t) || got.Free > line.RaiseFree {
					t.Errorf("crossing is %+v, line %d", got, line.RaiseFree)
				}
			})
		}
	}
}

func newKind(t testing.TB, kind string) *filesystem {
	t.Helper()
	switch kind {
	case "ext4":
		return newExt4(t)
	case "xfs":
		return newXfs(t)
	}
	// One copy of the metadata, so that its block groups fill twice as soon.
	return newBtrfs(t, "-m", "single")
}

// inFlight is how many blocks an event may be early by. xfs: what a
// transaction of its own workers holds. btrfs: a block for each tiny file since
// the latest sync, which will end up in the metadata instead.
const inFlight = 200

// bySync are the ways on btrfs that take metadata. Some of that is written
// by the commit itself, which is then what makes another block group.
var bySync = map[string]bool{"tiny files": true, "directories": true, "unpacking": true}

// crossByAnyWay steps until the event comes, and holds each step against what
// statfs says, on btrfs after a sync: too many syncs would hide what is in
// flight, so only some steps are checked.
func crossByAnyWay(t *testing.T, p *Probes, fs *filesystem, raise uint64, name string, step func() error) {
	t.Helper()
	for n := range 100000 {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		is, _ := armed(t, p, fs)
		if fs.kind == "btrfs" {
			if is && n%150 != 149 {
				continue
			}
			fs.sync(t)
			if bySync[name] {
				is, _ = armed(t, p, fs)
			}
		}
		free, _ := fs.free(t)
		if is && free <= raise {
			t.Fatalf("step %d: %d free, line %d, and no event: late", n, free, raise)
		}
		if !is && free > raise+inFlight {
			t.Fatalf("step %d: %d free, line %d: event %d early", n, free, raise, free-raise)
		}
		if !is {
			return
		}
	}
	free, _ := fs.free(t)
	t.Fatalf("the line %d was never reached: %d free", raise, free)
}
