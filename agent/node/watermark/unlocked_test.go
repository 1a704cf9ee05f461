package watermark

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const imagesPath = "/images"

var kubeletPath = config.Default().Filesystems.Kubelet.Path

// shared is a Watcher that several use under one lock: in the middle of a wait, at the nth time
// that it gives the lock up, another one does something with it.
type shared struct {
	*Watcher
	t          tester
	mu         sync.Mutex
	mounts     map[string]fs.Identity // by path
	available  uint64                 // on each filesystem
	watermarks map[uint64]bpf.Watermark
	set        []uint64 // devices whose watermark was set since the other one came
	blind      bool     // the kernel cannot watch anything yet
	refused    error    // by SetWatermark
	waits      int
	nth        int // 0: each time
	other      func()
	meanwhile  bool // the other one is at work
}

// tester is a [testing.T], or rapid's.
type tester interface {
	Error(args ...any)
	Context() context.Context
}

func newShared(t tester) *shared {
	s := &shared{t: t, available: 1 << 20, watermarks: map[uint64]bpf.Watermark{}, mounts: map[string]fs.Identity{
		imagesPath: {Mount: 1, Dev: 1}, kubeletPath: {Mount: 2, Dev: 2},
	}}
	s.Watcher = newTestWatcher(s, func(o *Options) { o.Probes, o.CatchUp, o.Outside = s, s.catchUp, s.unlocked })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Place(inventory.Roots{Images: imagesPath})
	s.Survey()
	for _, f := range s.Filesystems() {
		s.arm(f)
	}
	s.waits = 0
	return s
}

func (s *shared) unlocked(f func()) {
	s.mu.Unlock()
	defer s.mu.Lock()
	f()
	if s.meanwhile && s.nth > 0 {
		return
	}
	if s.waits++; s.other != nil && (s.nth == 0 || s.waits == s.nth) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.set, s.meanwhile = nil, true
		s.other()
		s.meanwhile = false
	}
}

// Stat implements Disk: everything is a btrfs, over its threshold unless a test makes room.
func (s *shared) Stat(path string) (image.Disk, fs.Info, error) {
	at, err := s.Identify(path)
	return image.Disk{CapacityBytes: 1 << 30, AvailableBytes: s.available}, fs.Info{Type: "btrfs", Dev: at.Dev, BlockSize: 4096}, err
}

// Settle implements Disk.
func (s *shared) Settle(_ context.Context, path string, _ func(image.Disk) bool) (image.Disk, error) {
	d, _, err := s.Stat(path)
	return d, err
}

// Identify implements Disk.
func (s *shared) Identify(path string) (fs.Identity, error) {
	if s.mu.TryLock() {
		s.mu.Unlock()
	} else {
		s.t.Error("a disk is asked under the lock")
	}
	at, ok := s.mounts[path]
	if !ok {
		return at, fmt.Errorf("stat %q: %w", path, iofs.ErrNotExist)
	}
	return at, nil
}

// WatchMounts implements Disk.
func (s *shared) WatchMounts(context.Context, string, chan<- struct{}) error { return nil }

// CanWatch implements Probes.
func (s *shared) CanWatch(string) bool { return !s.blind }

// catchUp gets programs for everything, which takes a while.
func (s *shared) catchUp() { s.unlocked(func() { s.blind = false }) }

// SetWatermark implements Probes.
func (s *shared) SetWatermark(dev uint64, _ string, l bpf.Watermark) error {
	if s.survey.numbered(dev) == nil {
		s.t.Error("a threshold is set on what is not watched")
	}
	if s.refused == nil {
		s.watermarks[dev], s.set = l, append(s.set, dev)
	}
	return s.refused
}

// ClearWatermark implements Probes.
func (s *shared) ClearWatermark(dev uint64) error { delete(s.watermarks, dev); return nil }

// Counted implements Probes.
func (s *shared) Counted(uint64) (free uint64, ok bool, err error) { return 0, false, nil }

// GivenBack implements Probes.
func (s *shared) GivenBack(uint64) (blocks uint64, ok bool, err error) { return 0, false, nil }

// callers are those that wait: what each is asked of the filesystem at a path, and whether it
// found that it went.
var callers = map[string]func(s *shared, f *Filesystem) (gone bool){
	"Crossed": func(s *shared, f *Filesystem) bool {
		d := s.Crossed(s.t.Context(), bpf.Crossing{Dev: f.Dev})
		return d.Images == f.HoldsImages() && !d.Workloads
	},
	"ReadForPlan": func(s *shared, f *Filesystem) bool {
		return errors.Is(s.ReadForPlan(s.t.Context(), f), errMoved)
	},
	"Looked": func(s *shared, f *Filesystem) bool {
		return !s.Looked(s.t.Context()).Workloads
	},
	"Recheck": func(s *shared, f *Filesystem) bool {
		f.recheckAt = s.o.Now()
		d := s.Recheck(s.t.Context())
		return d.Images == f.HoldsImages() && !d.Workloads
	},
	"Removed": func(s *shared, f *Filesystem) bool {
		before, err := s.Measure(f)
		return err == nil && s.Removed(s.t.Context(), f, before, image.Decision{FreesBytes: 1 << 28}) == Freed{}
	},
}

// A filesystem that goes while somebody waits for it is left alone after that, whether there is
// nothing any more, another one, or the same one mounted anew, which is a new one for its figures.
func TestGoneMeanwhile(t *testing.T) {
	mounted := map[string]func(s *shared, path string){
		"nothing":  func(s *shared, path string) { delete(s.mounts, path) },
		"another":  func(s *shared, path string) { s.mounts[path] = fs.Identity{Mount: 3, Dev: 3} },
		"the same": func(s *shared, path string) { s.mounts[path] = fs.Identity{Mount: 3, Dev: s.mounts[path].Dev} },
	}
	for caller, call := range callers {
		for there, mount := range mounted {
			for _, path := range []string{imagesPath, kubeletPath} {
				first, last := 1, 3 // to read it, to settle, and to read it again
				switch {
				case caller == "Looked" && path == imagesPath:
					continue // it is only read again there, after its threshold is set
				case caller == "Looked":
					first, last = 2, 4 // after that of the images
				case caller == "Removed":
					first, last = 2, 5 // after the reading before the removal; and the poll
				}
				for nth := first; nth <= last; nth++ {
					t.Run(fmt.Sprintf("%s/%s/%s/%d", caller, there, path, nth), func(t *testing.T) {
						testGoneMeanwhile(t, path, nth, call, mount)
					})
				}
			}
		}
	}
}

func testGoneMeanwhile(t *testing.T, path string, nth int, call func(*shared, *Filesystem) bool, mount func(*shared, string)) {
	s := newShared(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.at(path)
	s.nth, s.other = nth, func() {
		if mount(s, path); !s.Survey() {
			t.Error("the survey finds nothing")
		}
	}
	if !call(s, f) {
		t.Error("it does not say that the filesystem went")
	}
	if s.waits != nth {
		t.Errorf("it waits %d times, and the filesystem goes in wait %d", s.waits, nth)
	}
	for _, dev := range s.set {
		if dev == f.Dev {
			t.Error("a former filesystem gets a threshold")
		}
	}
	if _, armed := s.watermarks[f.Dev]; armed {
		t.Error("a former filesystem still has a threshold")
	}
	for _, topic := range []string{f.thresholdTopic(), f.kernelTopic(), f.lateTopic()} {
		if s.o.Conditions.Holds(topic) {
			t.Errorf("%q holds of a former filesystem", topic)
		}
	}
	if now := s.at(path); now != nil && (now == f || now.Believing() || !now.recheckAt.IsZero()) {
		t.Errorf("what is there now has the former one's state: %+v", now)
	}
}

// at is the filesystem that a path leads to; nil if there is none.
func (s *shared) at(path string) *Filesystem {
	for _, f := range s.Filesystems() {
		if f.Path == path {
			return f
		}
	}
	return nil
}

// So is one that goes while programs are loaded for it.
func TestGoneWhileCatchingUp(t *testing.T) {
	s := newShared(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.at(imagesPath)
	s.blind, s.nth, s.other = true, 1, func() {
		delete(s.mounts, imagesPath)
		s.Survey()
	}
	s.Looked(t.Context())
	if _, armed := s.watermarks[f.Dev]; armed || s.waits < 1 {
		t.Errorf("a former filesystem has a threshold: %v; it waited %d times", armed, s.waits)
	}
}

// Whatever is done in the middle of whatever, the kernel has thresholds of watched filesystems
// only, and when it is quiet again of all of them.
func TestAnythingMeanwhile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newShared(t)
		s.mu.Lock()
		defer s.mu.Unlock()
		depth := 0
		s.other = func() {
			if depth++; depth < 4 && rapid.Bool().Draw(t, "another") {
				s.anything(t)
			}
			depth--
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			s.anything(t)
			for dev := range s.watermarks {
				if s.survey.numbered(dev) == nil {
					t.Errorf("the kernel has a threshold on %d, which is not watched", dev)
				}
			}
		}
		s.other, s.blind = nil, false
		s.Survey()
		s.Looked(t.Context())
		for _, f := range s.Filesystems() {
			if _, armed := s.watermarks[f.Dev]; !armed || !f.Kernel || len(f.Names) == 0 {
				t.Errorf("a filesystem has a threshold: %v; it is %+v", armed, f)
			}
			if err := s.ReadForPlan(t.Context(), f); err != nil || f.Believing() {
				t.Errorf("%s has settled, and removals are still believed: %v", f.Path, err)
			}
		}
	})
}

// anything does something with a filesystem that is watched, or was.
func (s *shared) anything(t *rapid.T) {
	path := rapid.SampledFrom([]string{imagesPath, kubeletPath}).Draw(t, "path")
	f := s.at(path)
	switch rapid.SampledFrom([]string{"mount", "unmount", "fill", "blind", "remove", "poll", "call"}).Draw(t, "do") {
	case "mount":
		at := s.mounts[path]
		s.mounts[path] = fs.Identity{Mount: at.Mount + 1, Dev: rapid.Uint64Range(1, 3).Draw(t, "device")}
		s.Survey()
	case "unmount":
		delete(s.mounts, path)
		s.Survey()
	case "fill":
		s.available = rapid.Uint64Range(0, 1<<30).Draw(t, "available")
	case "blind":
		s.blind = true
	case "remove":
		if f == nil {
			return
		}
		if before, err := s.Measure(f); err == nil {
			s.settling.believe(f, image.Decision{FreesBytes: 1 << 20}, before, before)
			s.Removed(t.Context(), f, before, image.Decision{})
		}
	case "poll":
		s.Poll()
	case "call":
		if f != nil {
			callers[rapid.SampledFrom([]string{"Crossed", "ReadForPlan", "Looked", "Recheck"}).Draw(t, "caller")](s, f)
		}
	}
}

// One that stays while others go is acted on as if nothing had happened.
func TestStaysMeanwhile(t *testing.T) {
	for caller, call := range callers {
		t.Run(caller, func(t *testing.T) {
			s := newShared(t)
			s.mu.Lock()
			defer s.mu.Unlock()
			f := s.at(kubeletPath)
			s.nth, s.other = 1, func() {
				delete(s.mounts, imagesPath)
				s.Survey()
			}
			gone := call(s, f)
			if removed := caller == "Removed"; gone != removed || len(s.Filesystems()) != 1 {
				t.Errorf("it is taken for gone: %v, of %d", gone, len(s.Filesystems()))
			}
			if armed := len(s.set) == 1 && s.set[0] == f.Dev; armed != (caller == "Crossed" || caller == "Looked" || caller == "Recheck") {
				t.Errorf("thresholds were set on %v", s.set)
			}
		})
	}
}

// What is removed while a disk settles is believed on: it may not show yet.
func TestRemovedMeanwhile(t *testing.T) {
	s := newShared(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.at(imagesPath)
	m, d := Measured{Reading: f.Reading}, image.Decision{FreesBytes: 1 << 20}
	s.settling.believe(f, d, m, m)
	s.waits, s.nth, s.other = 0, 2, func() { s.settling.believe(f, d, m, m) }
	if err := s.ReadForPlan(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if got := f.Believed().AvailableBytes - f.AvailableBytes; got != 2<<20 {
		t.Errorf("%d bytes are believed", got)
	}
	if err := s.ReadForPlan(t.Context(), f); err != nil || f.Believing() {
		t.Errorf("the disk has settled since, and removals are still believed: %v", err)
	}
}

// What settles at a path that speaks for the filesystem no more is another disk.
func TestOtherPathMeanwhile(t *testing.T) {
	s := newShared(t)
	s.mounts["/blobs"] = s.mounts[imagesPath]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Place(inventory.Roots{Images: imagesPath, Content: "/blobs"})
	s.Survey()
	f := s.at(imagesPath)
	m := Measured{Reading: f.Reading}
	s.settling.believe(f, image.Decision{FreesBytes: 1 << 20}, m, m)
	s.waits, s.nth, s.other = 0, 2, func() {
		s.mounts[imagesPath] = fs.Identity{Mount: 3, Dev: 3}
		s.Survey()
	}
	if err := s.ReadForPlan(t.Context(), f); err != nil || f.Path != "/blobs" || !f.Believing() {
		t.Errorf("%v; the filesystem is at %s, and removals are believed: %v", err, f.Path, f.Believing())
	}
}
