package bpf

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// writer finds what a cgroup did; zero if it did nothing.
func writerIn(t testing.TB, p *Probes, id uint64) Writer {
	t.Helper()
	writers, err := p.Writers()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(writers, func(w Writer) bool { return w.Cgroup == id })
	if i < 0 {
		return Writer{Cgroup: id}
	}
	return writers[i]
}

// used is what statfs reports as taken, in bytes and inodes.
func (fs *filesystem) used(t testing.TB) (bytes, inodes int64) {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(fs.dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, int64(st.Files - st.Ffree)
}

// netError describes how a writer's net growth differs from the truth; "" if it is
// near enough.
func netError(w Writer, bytes, inodes int64) string {
	slack := max(max(bytes, -bytes)/20, 8<<10)
	if net := int64(w.Grown - w.Shrunk); net < bytes-slack || net > bytes+slack {
		return fmt.Sprintf("net growth is %d (+%d -%d), the filesystem reports %d", net, w.Grown, w.Shrunk, bytes)
	}
	if net := int64(w.Made - w.Removed); net != inodes {
		return fmt.Sprintf("net inodes are %d (+%d -%d), the filesystem reports %d", net, w.Made, w.Removed, inodes)
	}
	return ""
}

// truth holds what one writer did since the filesystem was new against what
// the filesystem reports.
type truth struct {
	fs            *filesystem
	probes        *Probes
	writer        *actor
	own           uint64 // the cgroup of the test, which syncs
	bytes, inodes int64  // at first
}

func newTruth(t testing.TB, p *Probes, fs *filesystem, a *actor) *truth {
	t.Helper()
	fs.sync(t)
	c := &truth{fs: fs, probes: p, writer: a, own: ownCgroup(t, a.root(t))}
	c.bytes, c.inodes = c.read(t)
	return c
}

// read is statfs, which knows of nobody else on this filesystem. On btrfs that
// has metadata, too, and no inodes.
func (c *truth) read(t testing.TB) (bytes, inodes int64) {
	t.Helper()
	if c.fs.kind != "btrfs" {
		return c.fs.used(t)
	}
	return c.fs.data(t), c.fs.files(t) + c.writer.deleted(t)
}

// check compares. ext4 keeps statfs true at each moment; the others after a
// sync, and once their workers have done what the writer left to them.
func (c *truth) check(t testing.TB) {
	t.Helper()
	if c.fs.kind != "ext4" {
		c.fs.sync(t)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		bytes, inodes := c.read(t)
		w := writerIn(t, c.probes, c.writer.id)
		// Whoever syncs holds the files that are being written (wait_sb_inodes), and lets those go
		// that are deleted meanwhile: their end is booked for the test itself. In a cgroup with the
		// kernel's threads the test also has what those promise and take back at once.
		own := writerIn(t, c.probes, c.own)
		w.Grown, w.Shrunk = w.Grown+own.Grown, w.Shrunk+own.Shrunk
		w.Made, w.Removed = w.Made+own.Made, w.Removed+own.Removed
		wrong := netError(w, bytes-c.bytes, inodes-c.inodes)
		if wrong == "" {
			return
		}
		if after, files := c.read(t); (after != bytes || files != inodes) && time.Now().Before(deadline) {
			continue // something was written back between the two
		}
		if c.fs.kind == "ext4" || time.Now().After(deadline) {
			t.Error(wrong)
			t.Logf("of which the test itself: %+v", own)
			return
		}
	}
}

type deed struct{ name, script string }

// What a container can do to a disk. After each step the count must agree with
// statfs, which knows of nobody else on this filesystem.
var deeds = []deed{
	{"buffered", "dd if=/dev/zero of=a bs=64k count=128 status=none"},
	{"written back", "sync a"},
	{"overwrite", "dd if=/dev/zero of=a bs=64k count=128 conv=notrunc status=none"},
	{"small writes", "dd if=/dev/zero of=small bs=4k count=512 status=none"},
	{"append", "for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero bs=4k count=16 status=none >>b; done"},
	{"direct", "dd if=/dev/zero of=direct bs=1M count=4 oflag=direct status=none"},
	{"fallocate", "fallocate -l 4M prealloc"},
	{"into unwritten", "dd if=/dev/zero of=prealloc bs=64k count=64 conv=notrunc status=none && sync prealloc"},
	{"fallocate over a promise", "dd if=/dev/zero of=p bs=64k count=16 status=none && fallocate -l 2M p"},
	{"sparse", "truncate -s 32M holes && dd if=/dev/zero of=holes bs=4k count=64 seek=100 conv=notrunc status=none"},
	{"punch", "sync holes && EBB_BPF_TEST_DEED='punch holes 409600 131072' $SELF"},
	{"mapping of holes", "EBB_BPF_TEST_DEED='map mapped 4194304' $SELF"},
	{"mapping written back", "sync mapped && EBB_BPF_TEST_DEED='map mapped 4194304' $SELF"},
	{"truncate promised", "dd if=/dev/zero of=c bs=64k count=64 status=none && truncate -s 1M c"},
	{"truncate written", "sync c && truncate -s 0 c"},
	{"fragments", "for i in $(seq 0 2 900); do dd if=/dev/zero of=frag bs=4k count=1 seek=$i conv=notrunc status=none; done; sync frag"},
	{"removed while it is written", "mkdir v && EBB_BPF_TEST_DEED='vanish v 300 1048576' $SELF && rmdir v"},
	{"directories", "i=0; while [ $i -lt 300 ]; do mkdir -p d/$i; i=$((i+1)); done"},
	{"tiny files", "i=0; while [ $i -lt 300 ]; do echo x >d/$i/f; i=$((i+1)); done"},
	{"rename over", "cp small small2 && sync small2 && mv small2 small"},
	{"remove promised", "dd if=/dev/zero of=e bs=64k count=64 status=none && rm e"},
	{"remove written", "rm a direct frag"},
	{"remove tree", "rm -r d"},
	{"keep open", "exec 5>open; dd if=/dev/zero bs=64k count=96 status=none >&5; rm open"},
	{"close", "exec 5>&-"},
	{"keep open again", "exec 6>open2; dd if=/dev/zero bs=64k count=96 status=none >&6; sync open2; rm open2"},
}

// sharing is for filesystems with reflinks: what is shared takes nothing, and
// comes back when the last file goes.
var sharing = []deed{
	{"share", "dd if=/dev/zero of=r bs=64k count=128 status=none && sync r && cp --reflink=always r r2"},
	{"write into shared", "dd if=/dev/zero of=r2 bs=4k count=300 seek=100 conv=notrunc status=none"},
	{"write directly into shared", "dd if=/dev/zero of=r2 bs=64k count=8 seek=64 conv=notrunc oflag=direct status=none"},
	{"map shared", "cp --reflink=always r r3 && EBB_BPF_TEST_DEED='map r3 4194304' $SELF"},
	{"scattered copies", "cp --reflink=always r r4; for i in $(seq 3 40 1200); do dd if=/dev/zero of=r4 bs=4k count=1 seek=$i conv=notrunc status=none; done"},
	{"remove a sharer", "rm r2"},
	{"share over data", "cp r r5 && sync r5 && cp --reflink=always r r5"},
	{"remove the first", "rm r"},
	{"overwrite what was shared", "dd if=/dev/zero of=r3 bs=64k count=64 conv=notrunc status=none"},
	{"remove the last", "rm r3 r4 r5"},
}

// countable are filesystems that count, and what their writers do.
var countable = []struct {
	name  string
	make  func(testing.TB) *filesystem
	deeds []deed
}{
	{"ext4 4k", func(t testing.TB) *filesystem { return newExt4(t, "-b", "4096") }, deeds},
	{"ext4 1k", func(t testing.TB) *filesystem { return newExt4(t, "-b", "1024") }, deeds},
	{"ext4 indirect", func(t testing.TB) *filesystem {
		return newExt4(t, "-b", "4096", "-O", "^extents,^64bit,^metadata_csum")
	}, slices.DeleteFunc(slices.Clone(deeds), func(d deed) bool { // unwritten extents are what it does not have
		return strings.Contains(d.script, "fallocate -l") || strings.Contains(d.name, "unwritten")
	})},
	{"xfs", newXfs, slices.Concat(deeds, sharing)},
	{"xfs 1k", func(t testing.TB) *filesystem {
		return newFilesystem(t, "xfs", 320<<20, "-q", "-b", "size=1024")
	}, slices.Concat(deeds, sharing)},
	{"xfs without reflink", func(t testing.TB) *filesystem {
		return newFilesystem(t, "xfs", 320<<20, "-q", "-m", "reflink=0,rmapbt=0")
	}, deeds},
	{"btrfs", func(t testing.TB) *filesystem { return newBtrfs(t) }, slices.Concat(deeds, sharing)},
	{"btrfs compressed", func(t testing.TB) *filesystem {
		fs := newBtrfs(t)
		if err := unix.Mount("", fs.dir, "", unix.MS_REMOUNT, "compress-force=zstd"); err != nil {
			t.Fatalf("compress: %v", err)
		}
		return fs
	}, deeds},
	{"btrfs without copies", func(t testing.TB) *filesystem {
		fs := newBtrfs(t)
		if err := unix.Mount("", fs.dir, "", unix.MS_REMOUNT, "nodatacow"); err != nil {
			t.Fatalf("write in place: %v", err)
		}
		return fs
	}, deeds},
}

func TestWriterAgreesWithTheFilesystem(t *testing.T) {
	for _, c := range countable {
		t.Run(c.name, func(t *testing.T) {
			p := load(t, Options{})
			fs := c.make(t)
			if err := p.CountWriters(fs.dev); err != nil {
				t.Fatal(err)
			}
			a := newActor(t, cgroup(t, "someone"), fs.dir)
			truth := newTruth(t, p, fs, a)
			check := func(t *testing.T) { truth.check(t) }
			for _, d := range c.deeds {
				a.do(d.script)
				t.Run(d.name, check)
			}
			a.end() // closes what was deleted
			t.Run("exit", check)
			if c := counters(t, p); c.WritersLost != 0 {
				t.Errorf("%d changes were lost", c.WritersLost)
			}
		})
	}
}
