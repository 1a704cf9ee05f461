package bpf

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// countedOn is a filesystem of a type, whose writers p counts.
func countedOn(t testing.TB, p *Probes, kind string) *filesystem {
	t.Helper()
	fs := newKind(t, kind)
	if err := p.CountWriters(fs.dev); err != nil {
		t.Fatal(err)
	}
	return fs
}

// eventually waits for what a worker of the kernel does in its own time.
func eventually(t testing.TB, wrong func() string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		what := wrong()
		if what == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Error(what)
			return
		}
	}
}

// steps are what a random history is made of; FILE, AT and N are drawn.
var steps = map[string]string{
	"write":     "dd if=/dev/zero of=FILE bs=4k seek=AT count=N conv=notrunc status=none",
	"direct":    "dd if=/dev/zero of=FILE bs=4k seek=AT count=N conv=notrunc oflag=direct status=none",
	"append":    "dd if=/dev/zero bs=4k count=N status=none >>FILE",
	"map":       "EBB_BPF_TEST_DEED='map FILE N000' $SELF",
	"fallocate": "fallocate -o AT000 -l N000 FILE",
	"punch":     "[ ! -e FILE ] || EBB_BPF_TEST_DEED='punch FILE AT000 N000' $SELF",
	"truncate":  "truncate -s AT000 FILE",
	"delete":    "rm -f FILE",
	"keep open": "exec 5>>FILE; dd if=/dev/zero bs=4k count=N status=none >&5; rm FILE",
	"close":     "exec 5>&-",
	"sync":      "[ ! -e FILE ] || sync FILE",
	"directory": "mkdir -p FILE.d/N",
	"replace":   "dd if=/dev/zero of=new bs=4k count=N status=none && mv new FILE",
}

// sharingSteps are for filesystems with reflinks.
var sharingSteps = map[string]string{
	"share":             "[ ! -e FILE ] || cp --reflink=always FILE shared",
	"write into shared": "dd if=/dev/zero of=shared bs=4k seek=AT count=N conv=notrunc status=none",
}

// TestWriterProperty: whatever a container does, its count is what is on disk.
func TestWriterProperty(t *testing.T) {
	p := load(t, Options{})
	for _, kind := range fsTypes {
		t.Run(kind, func(t *testing.T) {
			fs := countedOn(t, p, kind)
			a := newActor(t, cgroup(t, "someone"), fs.dir)
			truth := newTruth(t, p, fs, a)
			all := steps
			if kind != "ext4" {
				all = map[string]string{}
				for _, more := range []map[string]string{steps, sharingSteps} {
					maps.Copy(all, more)
				}
			}
			names := slices.Sorted(maps.Keys(all)) // the same for the same seed
			rapid.Check(t, func(rt *rapid.T) {
				var script []string
				for range rapid.IntRange(2, 12).Draw(rt, "steps") {
					script = append(script, strings.NewReplacer(
						"FILE", rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "file"),
						"AT", fmt.Sprint(rapid.IntRange(0, 500).Draw(rt, "at")),
						"N", fmt.Sprint(rapid.IntRange(1, 500).Draw(rt, "n")),
					).Replace(all[rapid.SampledFrom(names).Draw(rt, "what")]))
				}
				a.do(strings.Join(script, " && "))
				// What was counted wrongly stays: a smaller history would fail for it, too.
				if truth.check(t); t.Failed() {
					t.Fatalf("after %s", strings.Join(script, "\n"))
				}
				a.do("exec 5>&-; rm -rf *") // the next history begins like this one
			})
		})
	}
}

// TestDeletedDuringSync: what is deleted while somebody syncs is given back once.
func TestDeletedDuringSync(t *testing.T) {
	files := 1000
	if testing.Short() { // in an emulated machine, where that many take minutes
		files = 100
	}
	for _, kind := range fsTypes {
		t.Run(kind, func(t *testing.T) {
			p := load(t, Options{})
			fs := countedOn(t, p, kind)
			a := newActor(t, cgroup(t, "someone"), fs.dir)
			truth := newTruth(t, p, fs, a)
			dir, err := os.Open(fs.dir)
			if err != nil {
				t.Fatal(err)
			}
			var ended atomic.Bool
			var syncs errgroup.Group
			syncs.Go(func() error {
				defer dir.Close()
				for !ended.Load() {
					if err := unix.Syncfs(int(dir.Fd())); err != nil {
						return err
					}
				}
				return nil
			})
			end := sync.OnceValue(func() error {
				ended.Store(true)
				return syncs.Wait()
			})
			t.Cleanup(func() { end() })
			a.do(fmt.Sprintf("for i in $(seq %d); do dd if=/dev/zero of=f$i bs=4k count=38 status=none; rm -f f$((i-4)); done; rm f*", files))
			if err := end(); err != nil {
				t.Fatal(err)
			}
			truth.check(t)
		})
	}
}

// TestWhoDeletesShrinks: what workers of the kernel do is booked for whoever
// left it to them, and for nobody else.
func TestWhoDeletesShrinks(t *testing.T) {
	for _, kind := range fsTypes {
		t.Run(kind, func(t *testing.T) {
			p := load(t, Options{})
			fs := countedOn(t, p, kind)
			first, second := newActor(t, cgroup(t, "first"), fs.dir), newActor(t, cgroup(t, "second"), fs.dir)
			first.send(fmt.Sprintf(writeMiB, "one", 16*8))
			second.send(fmt.Sprintf(writeMiB, "two", 16*4))
			first.await()
			second.await()
			want := func(firstMiB, secondMiB int64) {
				t.Helper()
				fs.sync(t)
				eventually(t, func() (wrong string) {
					for id, mib := range map[uint64]int64{first.id: firstMiB, second.id: secondMiB, rootCgroup: 0} {
						w := writerIn(t, p, id)
						if off := int64(w.Grown-w.Shrunk) - mib<<20; off > 64<<10 || off < -64<<10 {
							wrong += fmt.Sprintf("cgroup %d: +%d -%d, want %d MiB; ", id, w.Grown, w.Shrunk, mib)
						}
					}
					return wrong
				})
			}
			want(8, 4)
			second.do("rm one")
			want(8, -4)
			// What is overwritten goes when write-back has replaced it.
			first.do("dd if=/dev/zero of=two bs=64k count=64 conv=notrunc status=none && sync two")
			first.do("exec 5<two; rm two")
			want(8, -4)
			first.end()
			want(4, -4)
		})
	}
}

// TestManyFiles: the tables of what is left to workers hold what a package
// manager does in one go.
func TestManyFiles(t *testing.T) {
	for _, kind := range fsTypes {
		t.Run(kind, func(t *testing.T) {
			p := load(t, Options{})
			fs := countedOn(t, p, kind)
			a := newActor(t, cgroup(t, "packages"), fs.dir)
			truth := newTruth(t, p, fs, a)
			files := "EBB_BPF_TEST_DEED='files d 3500 8192' $SELF"
			for _, d := range []deed{
				{"write", "mkdir d && " + files},
				{"write over", files},
				{"write over and delete", files + " && rm -r d"},
			} {
				a.do(d.script)
				t.Run(d.name, func(t *testing.T) { truth.check(t) })
			}
			if c := counters(t, p); c.WritersLost != 0 || c.WritersUnowned != 0 {
				t.Errorf("%d changes were lost, %d had no owner", c.WritersLost, c.WritersUnowned)
			}
		})
	}
}

const rootCgroup = 1

// TestPreallocationIsTakenBack: xfs keeps room behind the end of a file that is
// appended to again and again, until a worker takes it back.
func TestPreallocationIsTakenBack(t *testing.T) {
	const lifetime = "/proc/sys/fs/xfs/speculative_prealloc_lifetime"
	p := load(t, Options{})
	fs := countedOn(t, p, "xfs")
	was, err := os.ReadFile(lifetime)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(lifetime, was, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(lifetime, []byte("1\n"), 0); err != nil {
		t.Fatal(err)
	}
	a := newActor(t, cgroup(t, "appender"), fs.dir)
	truth := newTruth(t, p, fs, a)
	a.do("for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero bs=64k count=8 status=none >>log; done; sync log")
	kept := writerIn(t, p, a.id)
	if net := int64(kept.Grown - kept.Shrunk); net < 4<<20+64<<10 {
		t.Fatalf("nothing was preallocated: +%d -%d", kept.Grown, kept.Shrunk)
	}
	eventually(t, func() string {
		if bytes, _ := truth.read(t); bytes-truth.bytes > 4<<20+64<<10 {
			return fmt.Sprintf("the worker has not come: %d bytes", bytes-truth.bytes)
		}
		return ""
	})
	truth.check(t)
	if w := writerIn(t, p, a.id); w.Shrunk < kept.Shrunk+512<<10 {
		t.Errorf("taken back from somebody else: +%d -%d before, +%d -%d now", kept.Grown, kept.Shrunk, w.Grown, w.Shrunk)
	}
}
