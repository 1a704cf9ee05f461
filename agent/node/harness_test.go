package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/events"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/pods"
	"github.com/ebb-agent/ebb/agent/node/stats"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/bpf/bpftest"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	mib  = uint64(1 << 20)
	size = 1000 * mib // of the fake disk: one percent is 10 MiB
)

// world is a node in a test: the fake runtime with its disk, the fake kernel,
// and the agent, all in one synctest bubble, so that hours pass in no time.
type world struct {
	t       *testing.T
	rt      *fake.Runtime
	kernel  *fakeKernel
	disk    fakeDisk
	cfg     config.Config
	cgroups stats.Cgroups
	pods    *fakePods // nil: none
	events  events.Poster
	dial    func(context.Context) (Runtime, error)
	agent   *Agent
	logs    *logBook
	boot    time.Time    // when the node booted
	bootID  string       // of this boot
	skew    atomic.Int64 // of the wall clock, ns
	rested  atomic.Int32
	written uint64 // by write, of no image
	stop    func()
}

// inWorld runs a test in a bubble of its own.
func inWorld(t *testing.T, f func(*world)) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ebb-agent-") // t.TempDir is cleaned up outside the bubble
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, rt: fake.New(time.Now), kernel: newFakeKernel(), logs: &logBook{}, boot: time.Now().Add(-time.Hour), bootID: "boot-1"}
		w.kernel.now = w.sinceBoot
		w.disk.rt, w.disk.news = w.rt, make(chan struct{}, 1)
		w.cfg = config.Default()
		w.cfg.Images.AgeRemovalsPerHourPercent = 100 // there are few images here
		w.cfg.Mode = config.ModeEnforce
		w.cfg.State.Directory = dir
		w.cfg.Server.Address, w.cfg.Server.AdminSocket = "", ""
		w.cfg.Writers.Top = 10
		w.cfg.Images.MinimumAge = 0
		w.cfg.Containers.Logs = false // those of this machine are none of a test's business
		w.dial = func(context.Context) (Runtime, error) { return w.rt, nil }
		w.rt.SetDisk(size, 0, 100000)
		defer func() {
			w.down()
			if t.Failed() {
				t.Log(w.logs)
			}
		}()
		f(w)
	})
}

func (w *world) sinceBoot() time.Duration { return time.Since(w.boot) }

// up starts the agent and waits until it has nothing left to do.
func (w *world) up() {
	w.t.Helper()
	var probes Probes
	if w.kernel != nil {
		probes = w.kernel
		w.kernel.crossings = make(chan bpf.Crossing, 8)
		w.kernel.disk = &w.disk
	}
	var source pods.Source
	if w.pods != nil {
		source = w.pods
	}
	a, err := New(Options{
		Pods: source, Events: w.events, Config: w.cfg, Dial: w.dial, Probes: probes, NoProbes: bpf.ErrUnsupported, Cgroups: w.cgroups, Disk: &w.disk,
		Log:     slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Rested:  func() { w.rested.Add(1) },
		Sources: clock.Sources{Boot: w.sinceBoot, Wall: func() time.Time { return time.Now().Add(time.Duration(w.skew.Load())) }},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	a.bootID = w.bootID
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	w.agent = a
	go func() { done <- a.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the agent ended with %v", err)
		}
	}
	synctest.Wait()
}

// down stops the agent as SIGTERM does.
func (w *world) down() {
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// add imports an image with one layer of its own, of so many MiB (blob and
// snapshot together).
func (w *world) add(name string, size uint64, more ...fake.Layer) string {
	own := fake.Layer{Name: name, Bytes: size * mib / 2, Inodes: 10, BlobBytes: size * mib / 2}
	return w.rt.Import(fake.CRINamespace, fake.Image{Name: name, Layers: append(more, own)})
}

// run runs a container from each of the images.
func (w *world) run(names ...string) {
	for _, name := range names {
		w.rt.Run(fake.CRINamespace, "c-"+name, name)
	}
}

// end ends the containers of run, one after the other, and deletes them.
func (w *world) end(names ...string) {
	for _, name := range names {
		w.rt.Stop(fake.CRINamespace, "c-"+name)
		w.rt.Delete(fake.CRINamespace, "c-"+name)
		w.pass(time.Millisecond)
	}
}

// use runs a container from an image and removes it.
func (w *world) use(name string) {
	w.run(name)
	w.rt.Stop(fake.CRINamespace, "c-"+name)
	w.rt.Delete(fake.CRINamespace, "c-"+name)
	w.pass(time.Second)
}

// fill brings the disk to so many percent with things that are not images, and
// raises the crossing as the kernel would.
func (w *world) fill(percent uint64) {
	before := w.rt.Disk()
	w.others(percent)
	if w.kernel != nil {
		w.kernel.wrote(fakeDev, before, w.rt.Disk())
	}
	synctest.Wait()
}

// others bring the disk to so many percent with things that are not images. No event reports it, and nobody
// waits for what the agent makes of it.
func (w *world) others(percent uint64) {
	w.rt.SetDisk(size, 0, 100000)
	images := size - w.rt.Disk().AvailableBytes
	w.rt.SetDisk(size, size*percent/100-images, 100000)
}

func (w *world) wantRemoved(want ...string) {
	w.t.Helper()
	if got := w.rt.Removed(); !slices.Equal(got, want) {
		w.t.Errorf("removed %q, want %q", got, want)
	}
}

// explain asks the running agent.
func (w *world) explain() page.Images {
	w.t.Helper()
	var e page.Images
	w.get("/images", &e)
	return e
}

func (w *world) status() (s page.Status) {
	w.t.Helper()
	w.get("/status", &s)
	return s
}

// get asks the running agent's admin handler, which is to answer.
func (w *world) get(path string, into any) {
	w.t.Helper()
	if status := w.ask(http.MethodGet, path, nil, into); status != http.StatusOK {
		w.t.Fatalf("%s: status %d", path, status)
	}
}

// ask sends a request to the running agent's admin handler.
func (w *world) ask(method, path string, body, into any) (status int) {
	w.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(context.Background(), method, path, bytes.NewReader(data))
	r.Header.Set(page.HeaderCaller, "jane")
	a := httptest.NewRecorder()
	w.agent.admin.handler().ServeHTTP(a, r)
	if into != nil {
		if err := json.Unmarshal(a.Body.Bytes(), into); err != nil {
			w.t.Fatalf("%s: %v: %s", path, err, a.Body)
		}
	}
	return a.Code
}

func (w *world) image(id string) page.Image {
	w.t.Helper()
	e := w.explain()
	i := slices.IndexFunc(e.Images, func(i page.Image) bool { return i.ID == id })
	if i < 0 {
		w.t.Fatalf("no image %s", id)
	}
	return e.Images[i]
}

func (w *world) wantReason(id string, want image.Reason) {
	w.t.Helper()
	if got := w.image(id).Reason; got != string(want) {
		w.t.Errorf("%s is kept or removed for %q, want %q", id, got, want)
	}
}

// fakeKernel does what bpf.Probes promises, without a kernel; bpftest defines what that is.
type fakeKernel struct {
	mu         sync.Mutex
	now        func() time.Duration
	tracked    map[bpf.Key]uint64
	unresolved map[bpf.Key]uint64
	watermarks map[uint64]bpf.Watermark
	armed      map[fakeHalf]bool
	types      map[uint64]string // of filesystems with a watermark
	crossings  chan bpf.Crossing
	disk       *fakeDisk
	promised   uint64 // blocks that Counted misses and the disk has
	lost       bool
	failTrack  error
	slots      int    // room for layers; 0: enough
	usesLost   uint64 // uses of unknown layers that found no room
	layersLost uint64 // layers whose reads found no room
	absent     bool   // the filesystems' modules are not loaded
	waiting    bool   // absent at the last CatchUp
	status     []bpf.ProgramStatus
	givenBack  map[uint64]uint64 // bytes, by filesystem

	bpftest.FakeWriters

	heat     []bpf.LayerHeat
	failHeat error
}

// fakeHalf is a filesystem's watermark of blocks, or of inodes.
type fakeHalf struct {
	dev    uint64
	inodes bool
}

func newFakeKernel() *fakeKernel {
	return &fakeKernel{tracked: map[bpf.Key]uint64{}, unresolved: map[bpf.Key]uint64{}, watermarks: map[uint64]bpf.Watermark{},
		armed: map[fakeHalf]bool{}, types: map[uint64]string{}, givenBack: map[uint64]uint64{}}
}

// ran is what the kernel sees when a process with that root ends.
func (k *fakeKernel) ran(key bpf.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.tracked[key]; ok {
		k.tracked[key] = uint64(k.now())
		return
	}
	k.unresolved[key] = uint64(k.now())
}

// wrote raises the events as usage_*.bpf.c do after an allocation, of what a disk had less
// after it than before.
func (k *fakeKernel) wrote(dev uint64, before, after image.Disk) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, ok := k.watermarks[dev]
	if !ok {
		return
	}
	took := func(before, after uint64) uint64 { return before - min(before, after) }
	blocks := after.AvailableBytes / blockSize
	if k.reaches(fakeHalf{dev, false}, blocks, took(before.AvailableBytes, after.AvailableBytes)/blockSize, l.RaiseFree, l.RearmFree, &l.WorseFree) {
		k.crossings <- bpf.Crossing{Dev: dev, BootNS: uint64(k.now()), Free: blocks + l.Reserved}
	}
	inodes := after.InodesAvailable
	if k.reaches(fakeHalf{dev, true}, inodes, took(before.InodesAvailable, inodes), l.RaiseInodes, l.RearmInodes, &l.WorseInodes) {
		k.crossings <- bpf.Crossing{Dev: dev, Inodes: true, BootNS: uint64(k.now()), Free: inodes}
	}
	k.watermarks[dev] = l
}

func (k *fakeKernel) reaches(h fakeHalf, free, took, raise, rearm uint64, worse *uint64) bool {
	switch {
	case raise == 0:
		return false
	case k.armed[h] || free+took > rearm:
		k.armed[h] = free > raise
		return !k.armed[h]
	case *worse > 0 && free <= *worse:
		*worse = 0
		return true
	}
	return false
}

func (k *fakeKernel) CatchUp() (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	came := k.waiting && !k.absent
	k.waiting = k.absent
	return came, nil
}

// attached takes the lock for programs that are there, until the caller gives it back.
func (k *fakeKernel) attached() (unlock func(), err error) {
	k.mu.Lock()
	if k.waiting {
		return k.mu.Unlock, bpf.ErrNotAttached
	}
	return k.mu.Unlock, nil
}

func (k *fakeKernel) Track(key bpf.Key) error {
	unlock, err := k.attached()
	defer unlock()
	if err != nil {
		return err
	}
	if k.failTrack != nil {
		return k.failTrack
	}
	if _, ok := k.tracked[key]; !ok {
		if k.slots > 0 && len(k.tracked) >= k.slots {
			return bpf.ErrFull
		}
		k.tracked[key] = k.unresolved[key]
		delete(k.unresolved, key)
	}
	return nil
}

func (k *fakeKernel) Untrack(key bpf.Key) error {
	unlock, err := k.attached()
	defer unlock()
	if err == nil {
		delete(k.tracked, key)
		delete(k.unresolved, key)
	}
	return err
}

func (k *fakeKernel) Tracked() []bpf.Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.tracked))
}

func (k *fakeKernel) LastUse(key bpf.Key) (uint64, bool, error) {
	unlock, err := k.attached()
	defer unlock()
	ns := k.tracked[key]
	return ns, ns > 0, err
}

func (k *fakeKernel) LastUses() (map[bpf.Key]uint64, error) {
	unlock, err := k.attached()
	defer unlock()
	uses := maps.Clone(k.tracked)
	maps.DeleteFunc(uses, func(_ bpf.Key, ns uint64) bool { return ns == 0 })
	return uses, err
}

func (k *fakeKernel) Purge(before uint64) error {
	unlock, err := k.attached()
	defer unlock()
	if err == nil {
		maps.DeleteFunc(k.unresolved, func(_ bpf.Key, ns uint64) bool { return ns < before })
	}
	return err
}

func (k *fakeKernel) CanWatch(fsType string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.canWatch(fsType)
}

func (k *fakeKernel) canWatch(fsType string) bool {
	return !k.waiting && slices.Contains([]string{"ext4", "xfs", "btrfs"}, fsType)
}

// Counted is of the runtime's disk only.
func (k *fakeKernel) Counted(dev uint64) (uint64, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.types[dev] != "btrfs" || dev != fakeDev {
		return 0, false, nil
	}
	return k.disk.rt.Disk().AvailableBytes/blockSize - k.promised, true, nil
}

func (k *fakeKernel) SetWatermark(dev uint64, fsType string, l bpf.Watermark) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, moved := k.watermarks[dev]
	switch {
	case fsType == "btrfs" && l.RaiseInodes > 0, l.RaiseFree > l.RearmFree, l.RaiseInodes > l.RearmInodes, l.WorseFree > l.RaiseFree, l.WorseInodes > l.RaiseInodes:
		return fmt.Errorf("no watermark: %+v", l)
	case !k.canWatch(fsType):
		return bpf.ErrNotAttached
	case !moved && len(k.watermarks) >= bpf.MaxWatermarks:
		return bpf.ErrFull
	}
	k.watermarks[dev], k.types[dev] = l, fsType
	k.armed[fakeHalf{dev, false}], k.armed[fakeHalf{dev, true}] = l.WorseFree == 0, l.WorseInodes == 0
	return nil
}

func (k *fakeKernel) ClearWatermark(dev uint64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.watermarks, dev)
	delete(k.types, dev)
	delete(k.givenBack, dev)
	return nil
}

func (k *fakeKernel) Crossings(ctx context.Context, out chan<- bpf.Crossing) error {
	for {
		select {
		case c := <-k.crossings:
			select {
			case out <- c:
			case <-ctx.Done():
				return ctx.Err()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// GivenBack returns what a test has set.
func (k *fakeKernel) GivenBack(dev uint64) (blocks uint64, ok bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.givenBack[dev] / blockSize, k.types[dev] != "", nil
}

// gave is space that comes free on the runtime's disk.
func (k *fakeKernel) gave(bytes uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.types[fakeDev] != "" { // nobody counts before
		k.givenBack[fakeDev] += bytes
	}
}

func (k *fakeKernel) Heat() ([]bpf.LayerHeat, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.heat), k.failHeat
}

func (k *fakeKernel) ForgetHeat(gone ...bpf.HeatKey) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.heat = slices.DeleteFunc(k.heat, func(l bpf.LayerHeat) bool { return slices.Contains(gone, l.HeatKey) })
	return nil
}

func (k *fakeKernel) HeatTier() (string, error) { return bpf.HeatByPages, nil }

func (k *fakeKernel) Counters() (bpf.Counters, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return bpf.Counters{UnresolvedLost: k.usesLost, HeatLayersLost: k.layersLost}, nil
}

func (k *fakeKernel) Status() []bpf.ProgramStatus { return k.status }
func (k *fakeKernel) Lost() bool                  { return k.lost }
func (k *fakeKernel) Close() error                { return nil }

// keyOf is where the image's layer is, by the fake runtime.
func (w *world) keyOf(id string) bpf.Key {
	w.t.Helper()
	inv, err := w.rt.Inventory(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(inv.Images, func(i inventory.Image) bool { return i.ID == id })
	root, err := w.rt.ResolveLayer(context.Background(), inv.Images[i].Layers[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return bpf.Key{Dev: root.Dev, Ino: root.Ino}
}

// logBook keeps what the agent logs.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder
	on   func(line string) // nil: nothing happens
}

func (l *logBook) Write(b []byte) (int, error) {
	if l.on != nil {
		l.on(string(b))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// count returns how many lines hold all of the words.
func (l *logBook) count(words ...string) int {
	n := 0
	for line := range strings.Lines(l.String()) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			n++
		}
	}
	return n
}

func (w *world) wantLogged(n int, words ...string) {
	w.t.Helper()
	if got := w.logs.count(words...); got != n {
		w.t.Errorf("%d log lines with %q, want %d", got, words, n)
	}
}

// metric returns the value of a counter or gauge, summed over its labels that
// hold all the given values.
func (w *world) metric(name string, labels ...string) float64 {
	w.t.Helper()
	families, err := w.agent.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		sum := 0.0
		for _, m := range f.GetMetric() {
			have := ""
			for _, l := range m.GetLabel() {
				have += fmt.Sprintf("%s,", l.GetValue())
			}
			if !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(have, l+",") }) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		return sum
	}
	w.t.Fatalf("no metric %s", name)
	return 0
}
