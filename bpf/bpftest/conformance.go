// Package bpftest checks what the agent relies on of [bpf.Probes]. The probes must pass in
// a real kernel, and so must the fakes that the agent's tests use in their place.
package bpftest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/bpf"
)

// Probes has the methods of [bpf.Probes] that the suite calls.
type Probes interface {
	CatchUp() (came bool, err error)

	CanWatch(fsType string) bool
	SetWatermark(dev uint64, fsType string, l bpf.Watermark) error
	ClearWatermark(dev uint64) error
	Counted(dev uint64) (free uint64, ok bool, err error)
	GivenBack(dev uint64) (blocks uint64, ok bool, err error)
	Crossings(ctx context.Context, out chan<- bpf.Crossing) error

	Track(k bpf.Key) error
	Untrack(k bpf.Key) error
	Tracked() []bpf.Key
	LastUse(k bpf.Key) (bootNS uint64, ok bool, err error)
	LastUses() (map[bpf.Key]uint64, error)
	Purge(beforeBootNS uint64) error

	Heat() ([]bpf.LayerHeat, error)
	ForgetHeat(gone ...bpf.HeatKey) error
	HeatTier() (tier string, why error)

	CanCountWriters(fsType string) bool
	CountWriters(devs ...uint64) error
	Writers() ([]bpf.Writer, error)
	ForgetWriters(ended ...bpf.Writer) error
}

// Free is a reading of statfs: the blocks and inodes that all users can get, and the blocks
// that are reserved for root.
type Free struct{ Blocks, Reserved, Inodes uint64 }

// Node is the machine that the suite drives. Its methods end the test if they fail.
type Node interface {
	// Probes returns probes with room for so many layers, 0 for the default. The node lacks
	// the absent modules until Load.
	Probes(t *testing.T, layers int, absent ...string) Probes
	// Load loads a module.
	Load(module string)
	// Disk makes a filesystem.
	Disk(t *testing.T, fsType string) Disk
	// Image unpacks a new image and returns the key of its topmost layer.
	Image(t *testing.T) bpf.Key
	// Run runs a container of the image from its start to its end.
	Run(t *testing.T, image bpf.Key)
	// Now returns the time since the node booted, in ns.
	Now(t *testing.T) uint64
}

// Disk is a filesystem that only the test uses.
type Disk interface {
	Dev() uint64
	Free(t *testing.T) Free
	// Take allocates blocks at once. giveBack frees them; they are free when it returns.
	Take(t *testing.T, blocks uint64) (giveBack func())
	// Make creates empty files.
	Make(t *testing.T, files int)
	// Write allocates blocks in a new cgroup and returns the id of that. end removes the
	// cgroup; the blocks stay allocated.
	Write(t *testing.T, blocks uint64) (cgroup uint64, end func())
}

var fsTypes = []string{"ext4", "xfs", "btrfs"}

// Conformance runs the suite. Each case has a node of its own.
func Conformance(t *testing.T, node func() Node) {
	for _, fsType := range fsTypes {
		t.Run(fsType, func(t *testing.T) {
			for name, run := range map[string]func(*testing.T, *watched){
				"Edge": testEdge, "Worse": testWorse, "SettingArms": testSettingArms, "Figures": testFigures, "Inodes": testInodes,
			} {
				// Events of btrfs may be early: deleted data counts as used until the next
				// commit.
				if fsType == "btrfs" && (name == "Edge" || name == "Worse") {
					continue
				}
				t.Run(name, func(t *testing.T) { run(t, watch(t, node(), fsType)) })
			}
			t.Run("Writers", func(t *testing.T) { testWriters(t, node(), fsType) })
		})
	}
	for name, run := range map[string]func(*testing.T, Node){
		"Refused": testRefused, "LastUse": testLastUse, "Purge": testPurge, "Absent": testAbsent, "Heat": testHeat,
	} {
		t.Run(name, func(t *testing.T) { run(t, node()) })
	}
}

// watched is a filesystem whose events are read.
type watched struct {
	Probes
	Disk
	fsType string
	node   Node
	events <-chan bpf.Crossing
	mark   uint64 // no event received from now on may be older
}

func watch(t *testing.T, n Node, fsType string) *watched {
	t.Helper()
	w := &watched{Probes: n.Probes(t, 0), Disk: n.Disk(t, fsType), fsType: fsType, node: n}
	events := make(chan bpf.Crossing, 64)
	w.events = events
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Crossings(ctx, events) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Crossings ended with %v", err)
		}
	})
	return w
}

func (w *watched) set(t *testing.T, l bpf.Watermark) {
	t.Helper()
	l.Reserved = w.Free(t).Reserved
	if err := w.SetWatermark(w.Dev(), w.fsType, l); err != nil {
		t.Fatal(err)
	}
}

// expect begins a step that must raise an event. If an event was raised before the step, it
// is received first, and crossed finds it too old.
func (w *watched) expect(t *testing.T) { t.Helper(); w.mark = w.node.Now(t) }

// crossed waits for the event of that step.
func (w *watched) crossed(t *testing.T, what string, inodes bool, raise uint64) {
	t.Helper()
	select {
	case c := <-w.events:
		if c.BootNS < w.mark || c.BootNS > w.node.Now(t) {
			t.Fatalf("%s: the next event is %+v, from before: nothing was to raise it", what, c)
		}
		if c.Dev != w.Dev() || c.Inodes != inodes || c.Near || c.Free > raise {
			t.Fatalf("%s: %+v on %#x, with a watermark of %d", what, c, w.Dev(), raise)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s: no event", what)
	}
}

// quiet checks that no event was raised: it sets another watermark, whose event must be the
// first one received.
func (w *watched) quiet(t *testing.T) {
	t.Helper()
	now := w.Free(t)
	w.set(t, bpf.Watermark{RaiseFree: now.Blocks + 10, RearmFree: now.Blocks + 10})
	w.expect(t)
	w.Take(t, 1)
	w.crossed(t, "a last one", false, now.Blocks+10+now.Reserved)
}

// testEdge wants one event when free space falls to the watermark, and the next only after
// free space was above the second figure: at the latest before the allocation that takes it
// down again.
func testEdge(t *testing.T, w *watched) {
	empty := w.Free(t)
	l := bpf.Watermark{RaiseFree: empty.Blocks - 2000, RearmFree: empty.Blocks - 1000}
	raise := l.RaiseFree + empty.Reserved
	w.set(t, l)
	first := w.Take(t, 600)
	part := w.Take(t, 600)
	w.expect(t)
	rest := w.Take(t, 1200)
	w.crossed(t, "the first time", false, raise)
	for range 3 {
		w.Take(t, 1)
	}
	part() // to between the two figures
	part = w.Take(t, 600)
	for _, giveBack := range []func(){first, part, rest} {
		giveBack()
	}
	w.Take(t, 1) // above both
	w.expect(t)
	rest = w.Take(t, 2400)
	w.crossed(t, "the second time", false, raise)
	rest()
	w.expect(t)
	w.Take(t, 2400) // from above both to below both
	w.crossed(t, "the third time", false, raise)
	w.quiet(t)
}

// testWorse sets a watermark that is reached already. It raises one event at the third
// figure, and is an ordinary one once free space was above the second.
func testWorse(t *testing.T, w *watched) {
	empty := w.Free(t)
	fill := w.Take(t, 2000)
	l := bpf.Watermark{RaiseFree: empty.Blocks - 1000, RearmFree: empty.Blocks - 800, WorseFree: empty.Blocks - 2600}
	raise, worse := l.RaiseFree+empty.Reserved, l.WorseFree+empty.Reserved
	w.set(t, l)
	more := w.Take(t, 100)
	w.expect(t)
	most := w.Take(t, 800)
	w.crossed(t, "worse", false, worse)
	w.Take(t, 20)
	for _, giveBack := range []func(){fill, more, most} {
		giveBack()
	}
	w.expect(t)
	fill = w.Take(t, 1400)
	w.crossed(t, "an ordinary one", false, raise)

	w.set(t, l) // which has not reached its third figure
	fill()
	w.Take(t, 1)
	w.expect(t)
	w.Take(t, 1400)
	w.crossed(t, "an ordinary one, armed before it was worse", false, raise)
	w.expect(t)
	w.Take(t, 1600)
	w.crossed(t, "worse after all", false, worse)
	w.quiet(t)
}

// testSettingArms checks that setting a watermark arms it, and that the next allocation
// compares. A cleared watermark raises no event.
func testSettingArms(t *testing.T, w *watched) {
	for range 3 {
		w.quiet(t)
	}
	for range 2 {
		if err := w.ClearWatermark(w.Dev()); err != nil {
			t.Fatal(err)
		}
	}
	w.Take(t, 10)
	w.quiet(t)
}

// testFigures checks what the kernel counts besides statfs. It does so only for filesystems
// with a watermark: all blocks that were ever given back, and on btrfs the free blocks.
func testFigures(t *testing.T, w *watched) {
	check := func(when string, watermark bool) (counted, givenBack uint64) {
		t.Helper()
		counted, isCounted, err1 := w.Counted(w.Dev())
		givenBack, isGivenBack, err2 := w.GivenBack(w.Dev())
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if isCounted != (watermark && w.fsType == "btrfs") || isGivenBack != watermark {
			t.Fatalf("%s: counted %v, given back %v", when, isCounted, isGivenBack)
		}
		return counted, givenBack
	}
	check("without a watermark", false)
	w.set(t, bpf.Watermark{RaiseFree: 1, RearmFree: 1})
	giveBack := w.Take(t, 1000)
	_, before := check("with a watermark", true)
	if before > 1 {
		t.Errorf("%d blocks were given back by nobody", before)
	}
	giveBack()
	counted, after := check("after a removal", true)
	if n := after - before; n < 1000 || n > 1001 {
		t.Errorf("%d blocks of 1000 are given back", n)
	}
	if free := w.Free(t).Blocks; w.fsType == "btrfs" && counted != free {
		t.Errorf("%d blocks are counted, statfs reports %d", counted, free)
	}
	w.set(t, bpf.Watermark{RaiseFree: 2, RearmFree: 2})
	if _, again := check("with another watermark", true); again < after {
		t.Errorf("%d blocks are given back, of %d before", again, after)
	}
	if err := w.ClearWatermark(w.Dev()); err != nil {
		t.Fatal(err)
	}
	check("after it was cleared", false)
}

func testInodes(t *testing.T, w *watched) {
	free := w.Free(t)
	l := bpf.Watermark{RaiseInodes: free.Inodes - min(free.Inodes, 300), RearmInodes: free.Inodes}
	if w.fsType == "btrfs" {
		l = bpf.Watermark{RaiseInodes: 1, RearmInodes: 1}
		if err := w.SetWatermark(w.Dev(), w.fsType, l); err == nil || errors.Is(err, bpf.ErrNotAttached) {
			t.Errorf("btrfs counts no inodes: %v", err)
		}
		return
	}
	w.set(t, l)
	w.Make(t, 100)
	w.expect(t)
	w.Make(t, 250)
	w.crossed(t, "inodes", true, l.RaiseInodes)
	w.Make(t, 20)
	w.quiet(t)
}

// testRefused checks that unknown types, invalid watermarks and watermarks without room are
// refused.
func testRefused(t *testing.T, n Node) {
	p := n.Probes(t, 0)
	for _, fsType := range fsTypes {
		if !p.CanWatch(fsType) || !p.CanCountWriters(fsType) {
			t.Errorf("%s cannot be watched", fsType)
		}
	}
	for _, fsType := range []string{"tmpfs", "zfs", ""} {
		if p.CanWatch(fsType) || p.CanCountWriters(fsType) {
			t.Errorf("%q can be watched", fsType)
		}
		if err := p.SetWatermark(1<<40, fsType, bpf.Watermark{}); !errors.Is(err, bpf.ErrNotAttached) {
			t.Errorf("a watermark of %q: %v", fsType, err)
		}
	}
	for name, l := range map[string]bpf.Watermark{
		"above its second figure": {RaiseFree: 2, RearmFree: 1}, "inodes above their second figure": {RaiseInodes: 2, RearmInodes: 1},
		"below its third figure": {WorseFree: 2, RaiseFree: 1, RearmFree: 1},
	} {
		if err := p.SetWatermark(1<<40, "ext4", l); err == nil {
			t.Errorf("a watermark %s is taken", name)
		}
	}
	for dev := range uint64(bpf.MaxWatermarks) {
		for range 2 { // moving a watermark takes no more room
			if err := p.SetWatermark(1<<40+dev, "ext4", bpf.Watermark{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := p.SetWatermark(1<<41, "ext4", bpf.Watermark{}); !errors.Is(err, bpf.ErrFull) {
		t.Errorf("one more than there is room for: %v", err)
	}
	if err := p.ClearWatermark(1 << 40); err != nil {
		t.Fatal(err)
	}
	if err := p.SetWatermark(1<<41, "ext4", bpf.Watermark{}); err != nil {
		t.Errorf("in place of one that was cleared: %v", err)
	}
}

// used checks that a layer was used last at or after since; 0 means never.
func used(t *testing.T, p Probes, n Node, what string, k bpf.Key, since uint64) {
	t.Helper()
	at, ok, err := p.LastUse(k)
	if err != nil {
		t.Fatal(err)
	}
	uses, err := p.LastUses()
	if err != nil {
		t.Fatal(err)
	}
	if all, listed := uses[k]; listed != ok || all != at {
		t.Errorf("%s: last use %d, %v, and in the list %d, %v", what, at, ok, all, listed)
	}
	if ok != (since > 0) || ok && (at < since || at > n.Now(t)) {
		t.Errorf("%s: last use %d, %v; want one since %d", what, at, ok, since)
	}
}

func track(t *testing.T, p Probes, k bpf.Key) {
	t.Helper()
	if err := p.Track(k); err != nil {
		t.Fatal(err)
	}
}

func untrack(t *testing.T, p Probes, k bpf.Key) {
	t.Helper()
	if err := p.Untrack(k); err != nil {
		t.Fatal(err)
	}
}

// testLastUse checks that a use is stamped, even one from before the layer was tracked. An
// untracked layer has no past.
func testLastUse(t *testing.T, n Node) {
	p := n.Probes(t, 2)
	a, b, c := n.Image(t), n.Image(t), n.Image(t)
	begun := n.Now(t)
	n.Run(t, a)
	used(t, p, n, "not tracked", a, 0)
	track(t, p, a)
	used(t, p, n, "used before it was tracked", a, begun)
	track(t, p, a)
	track(t, p, b)
	used(t, p, n, "tracked twice", a, begun)
	used(t, p, n, "never used", b, 0)
	again := n.Now(t)
	n.Run(t, a)
	used(t, p, n, "used again", a, again)
	used(t, p, n, "still never used", b, 0)
	got := p.Tracked()
	if len(got) != 2 || !slices.Contains(got, a) || !slices.Contains(got, b) {
		t.Errorf("tracked are %v, want %v and %v", got, a, b)
	}

	if err := p.Track(c); !errors.Is(err, bpf.ErrFull) {
		t.Errorf("three in the room of two: %v", err)
	}
	for range 2 {
		untrack(t, p, a)
	}
	used(t, p, n, "tracked no more", a, 0)
	track(t, p, c)
	used(t, p, n, "in the room of another", c, 0)
	n.Run(t, a)
	untrack(t, p, a)
	untrack(t, p, b)
	track(t, p, a)
	used(t, p, n, "used before it was forgotten", a, 0)
}

// testPurge checks that Purge forgets the old uses of unknown layers, and only those.
func testPurge(t *testing.T, n Node) {
	p := n.Probes(t, 0)
	a, b := n.Image(t), n.Image(t)
	n.Run(t, a)
	between := n.Now(t)
	n.Run(t, b)
	if err := p.Purge(between); err != nil {
		t.Fatal(err)
	}
	track(t, p, a)
	track(t, p, b)
	used(t, p, n, "from before", a, 0)
	used(t, p, n, "from after", b, between)
	if err := p.Purge(n.Now(t)); err != nil {
		t.Fatal(err)
	}
	used(t, p, n, "tracked", b, between)
}

// testAbsent checks that methods fail with ErrNotAttached until their module is loaded and
// CatchUp attaches the programs.
func testAbsent(t *testing.T, n Node) {
	p := n.Probes(t, 0, append([]string{"overlay"}, fsTypes...)...)
	k := n.Image(t)
	come := func(want bool) {
		t.Helper()
		if came, err := p.CatchUp(); came != want || err != nil {
			t.Fatalf("CatchUp: %v, %v; want %v", came, err, want)
		}
	}
	come(false)
	_, err1 := p.LastUses()
	_, _, err2 := p.LastUse(k)
	for i, err := range []error{err1, err2, p.Track(k), p.Untrack(k), p.Purge(1), p.SetWatermark(1, "ext4", bpf.Watermark{})} {
		if !errors.Is(err, bpf.ErrNotAttached) {
			t.Errorf("without modules, question %d is answered with %v", i, err)
		}
	}
	if p.CanWatch("ext4") || len(p.Tracked()) > 0 {
		t.Error("without modules something is watched")
	}
	n.Load("overlay")
	n.Load("ext4")
	if p.CanWatch("ext4") {
		t.Error("programs are there before CatchUp")
	}
	come(true)
	come(false)
	if !p.CanWatch("ext4") {
		t.Error("CatchUp brings no programs")
	}
	track(t, p, k)
	since := n.Now(t)
	n.Run(t, k)
	used(t, p, n, "after CatchUp", k, since)
}

// testHeat checks that a layer is known once a container has read it, until it is
// forgotten.
func testHeat(t *testing.T, n Node) {
	p := n.Probes(t, 0)
	if tier, err := p.HeatTier(); tier == bpf.HeatNone || err != nil {
		t.Fatalf("tier %q, %v", tier, err)
	}
	k := n.Image(t)
	since := n.Now(t)
	n.Run(t, k)
	find := func() (found []bpf.LayerHeat) {
		t.Helper()
		all, err := p.Heat()
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(all, func(l bpf.LayerHeat) bool { return l.Filesystem != k.Dev || l.Inode != k.Ino })
	}
	found := find()
	if len(found) != 1 || found[0].SinceNS < since || found[0].SinceNS > n.Now(t) || found[0].Lost != 0 {
		t.Fatalf("the layer %v is known as %+v", k, found)
	}
	for range 2 {
		if err := p.ForgetHeat(found[0].HeatKey); err != nil {
			t.Fatal(err)
		}
	}
	if found := find(); len(found) != 0 {
		t.Errorf("forgotten, and known as %+v", found)
	}
}

// testWriters checks that writers are counted on the chosen filesystems, and can be
// forgotten once they have ended.
func testWriters(t *testing.T, n Node, fsType string) {
	p, d := n.Probes(t, 0), n.Disk(t, fsType)
	find := func(cgroup uint64) bpf.Writer {
		t.Helper()
		all, err := p.Writers()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(w bpf.Writer) bool { return w.Cgroup == cgroup })
		if i < 0 {
			return bpf.Writer{}
		}
		return all[i]
	}
	count := func(devs ...uint64) {
		t.Helper()
		if err := p.CountWriters(devs...); err != nil {
			t.Fatal(err)
		}
	}
	count(1, d.Dev())
	id, end := d.Write(t, 1000)
	w := find(id)
	if w.Grown < 1000*4096 || w.Grown > 1100*4096 || w.EndedNS != 0 || w.Path != "" {
		t.Errorf("while it lives: %+v", w)
	}
	if err := p.ForgetWriters(w); err == nil || find(id) == (bpf.Writer{}) {
		t.Errorf("one that lives is forgotten: %v", err)
	}
	since := n.Now(t)
	end()
	if w = find(id); w.EndedNS < since || w.EndedNS > n.Now(t) || w.Path == "" || w.Grown < 1000*4096 {
		t.Errorf("after its end: %+v", w)
	}
	for range 2 { // the cgroup alone identifies it: its figures may have changed
		if err := p.ForgetWriters(bpf.Writer{Cgroup: id, EndedNS: w.EndedNS}); err != nil {
			t.Fatal(err)
		}
	}
	if w = find(id); w != (bpf.Writer{}) {
		t.Errorf("forgotten: %+v", w)
	}
	count(1)
	other, end := d.Write(t, 1000)
	end()
	if w := find(other); w.Grown != 0 {
		t.Errorf("nobody counts any more: %+v", w)
	}
}
