package bpf

import (
	"slices"
	"strings"
	"testing"

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

// used is what statfs says is taken, in bytes and inodes.
func (fs *filesystem) used(t testing.TB) (bytes, inodes int64) {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(fs.dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, int64(st.Files - st.Ffree)
}

// wantNet holds a writer's net growth against the truth.
func wantNet(t testing.TB, w Writer, bytes, inodes int64) {
	t.Helper()
	slack := max(max(bytes, -bytes)/20, 8<<10)
	if net := int64(w.Grown - w.Shrunk); net < bytes-slack || net > bytes+slack {
		t.Errorf("net growth is %d (+%d -%d), the filesystem says %d", net, w.Grown, w.Shrunk, bytes)
	}
	if net := int64(w.Made - w.Removed); net != inodes {
		t.Errorf("net inodes are %d (+%d -%d), the filesystem says %d", net, w.Made, w.Removed, inodes)
	}
}

// What a container can do to a disk. After each step the count must agree with
// statfs, which knows of nobody else on this filesystem.
var deeds = []struct{ name, script string }{
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

func TestWriterAgreesWithTheFilesystem(t *testing.T) {
	for name, options := range map[string][]string{
		"4k": {"-b", "4096"}, "1k": {"-b", "1024"}, "indirect": {"-b", "4096", "-O", "^extents,^64bit,^metadata_csum"},
	} {
		t.Run(name, func(t *testing.T) {
			p := load(t, Options{})
			fs := newExt4(t, options...)
			if err := p.CountWriters(fs.dev); err != nil {
				t.Fatal(err)
			}
			a := newActor(t, cgroup(t, "someone"), fs.dir)
			bytes0, inodes0 := fs.used(t)
			check := func(t *testing.T) {
				bytes, inodes := fs.used(t)
				wantNet(t, writerIn(t, p, a.id), bytes-bytes0, inodes-inodes0)
			}
			for _, d := range deeds {
				if name == "indirect" && strings.Contains(d.script, "fallocate -l") || name == "indirect" && strings.Contains(d.name, "unwritten") {
					continue // unwritten extents are what it does not have
				}
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
