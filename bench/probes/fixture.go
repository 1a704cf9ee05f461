package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/tools/loopfs"
)

// fixture has all that is needed to measure: the programs that the agent attaches by default,
// filesystems with watermarks where the agent sets them, and a container.
type fixture struct {
	dir    string
	pinDir string
	disk   *loopfs.FS // holds the image, too
	others []*loopfs.FS
	near   *loopfs.FS // so full that its watermark is a few blocks away
	image  image
	probes toggle
}

func newFixture(ctx context.Context, dir string) (_ *fixture, err error) {
	b := &fixture{dir: dir, pinDir: filepath.Join(dir, "pins")}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		fs, err := loopfs.New(filepath.Join(dir, kind), kind, 3<<30)
		if err != nil {
			return nil, err
		}
		b.others = append(b.others, fs)
	}
	b.disk, b.others = b.others[0], b.others[1:]
	if b.near, err = loopfs.New(filepath.Join(dir, "near"), "ext4", gib/4); err != nil {
		return nil, err
	}
	if b.image, err = unpackImage(filepath.Join(b.disk.Dir, "image")); err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	p, err := loadProbes(ctx, b.pinDir)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	for _, fs := range b.filesystems() {
		if err := setDefaultWatermark(p, fs); err != nil {
			return nil, err
		}
	}
	if err := setNearWatermark(p, b.near); err != nil {
		return nil, err
	}
	if err := p.Track(b.image.top); err != nil {
		return nil, err
	}
	return b, b.probes.open(b.pinDir)
}

func (b *fixture) filesystems() []*loopfs.FS { return append([]*loopfs.FS{b.disk}, b.others...) }

// loadProbes attaches what ebb-agent attaches with an empty configuration.
func loadProbes(ctx context.Context, pinDir string) (*bpf.Probes, error) {
	c := config.Default()
	p, err := bpf.Load(ctx, bpf.Options{PinDir: pinDir, NoWriters: c.Writers.Top == 0})
	if err != nil {
		return nil, err
	}
	for _, s := range p.Status() {
		if !s.Working() && !strings.HasPrefix(s.Object, "writers") { // those are off by default
			return nil, errors.Join(fmt.Errorf("%s is not attached: %s", s.Name, s.Reason), p.Close())
		}
	}
	return p, nil
}

// setDefaultWatermark sets the watermark of the default configuration: 80 % used.
func setDefaultWatermark(p *bpf.Probes, fs *loopfs.FS) error {
	var st unix.Statfs_t
	if err := unix.Statfs(fs.Dir, &st); err != nil {
		return err
	}
	raise := st.Blocks / 5
	return p.SetWatermark(fs.Dev, fs.Kind, bpf.Watermark{RaiseFree: raise, RearmFree: raise, RaiseInodes: st.Files / 5, RearmInodes: st.Files / 5, Free: st.Bfree})
}

func setNearWatermark(p *bpf.Probes, fs *loopfs.FS) error {
	free, _, err := fs.Free()
	if err != nil {
		return err
	}
	raise := free - nearBlocks
	return p.SetWatermark(fs.Dev, fs.Kind, bpf.Watermark{RaiseFree: raise, RearmFree: raise, Free: free})
}

func (b *fixture) close() error {
	errs := []error{b.probes.close(), b.image.close()}
	for _, fs := range append(b.filesystems(), b.near) {
		if fs != nil {
			errs = append(errs, fs.Close())
		}
	}
	errs = append(errs, bpf.Unload(b.pinDir))
	if err := unix.Unmount(b.pinDir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		errs = append(errs, fmt.Errorf("unmount pins: %w", err))
	}
	return errors.Join(errs...)
}

// toggle attaches and detaches the very programs that Load attached. This takes milliseconds,
// whereas loading takes a second. So windows with and without programs can follow one another
// closely.
type toggle struct {
	programs map[string]*ebpf.Program
	near     map[string]*ebpf.Program // attached only while a filesystem is near its watermark
	links    map[string]link.Link     // while attached
}

// open takes over the programs of the pinned links, and removes these pins. The caller's Probes
// also hold the links and must be closed.
func (t *toggle) open(pinDir string) error {
	t.programs, t.near, t.links = map[string]*ebpf.Program{}, map[string]*ebpf.Program{}, map[string]link.Link{}
	pins, err := filepath.Glob(filepath.Join(pinDir, "*", "*", "*"))
	if err != nil {
		return err
	}
	for _, pin := range pins {
		var err error
		name := filepath.Base(pin)
		switch filepath.Base(filepath.Dir(pin)) {
		case "links":
			t.programs[name], err = programOf(pin)
			err = errors.Join(err, os.Remove(pin))
		case "programs":
			t.near[name], err = ebpf.LoadPinnedProgram(pin, nil)
		}
		if err != nil {
			return fmt.Errorf("program of %s: %w", pin, err)
		}
	}
	if len(t.programs) == 0 {
		return fmt.Errorf("no links are pinned below %s", pinDir)
	}
	return nil
}

func (t *toggle) all() map[string]*ebpf.Program {
	all := maps.Clone(t.programs)
	maps.Copy(all, t.near)
	return all
}

func programOf(pin string) (*ebpf.Program, error) {
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return nil, err
	}
	return ebpf.NewProgramFromID(info.Program)
}

// on attaches the programs that are always attached and, if near, those for a filesystem near its
// watermark.
func (t *toggle) on(near bool) error {
	wanted := maps.Clone(t.programs)
	if near {
		maps.Copy(wanted, t.near)
	}
	for name, program := range wanted {
		if t.links[name] != nil {
			continue
		}
		l, err := link.AttachTracing(link.TracingOptions{Program: program})
		if err != nil {
			return fmt.Errorf("attach %s: %w", name, err)
		}
		t.links[name] = l
	}
	return nil
}

func (t *toggle) off() error {
	var errs []error
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	clear(t.links)
	return errors.Join(errs...)
}

func (t *toggle) close() error {
	if t.programs == nil {
		return nil
	}
	err := t.off()
	for _, p := range t.all() {
		err = errors.Join(err, p.Close())
	}
	return err
}

// nsPerRun returns how many ns each program takes per run, which the kernel measures while do runs.
// It is an error if a program never runs.
func (t *toggle) nsPerRun(do func() error) (map[string]float64, error) {
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return nil, fmt.Errorf("time programs: %w", err)
	}
	defer stats.Close()
	before, err := t.runs()
	if err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	after, err := t.runs()
	if err != nil {
		return nil, err
	}
	ns := map[string]float64{}
	for name := range after {
		if n := after[name].RunCount - before[name].RunCount; n > 0 {
			ns[name] = float64(after[name].Runtime-before[name].Runtime) / float64(n)
		}
	}
	var idle []string
	for _, name := range slices.Sorted(maps.Keys(t.all())) {
		if _, ran := ns[name]; !ran {
			idle = append(idle, name)
		}
	}
	if idle != nil {
		return nil, fmt.Errorf("nothing ran %s", strings.Join(idle, ", "))
	}
	return ns, nil
}

func (t *toggle) runs() (map[string]ebpf.ProgramStats, error) {
	all := map[string]ebpf.ProgramStats{}
	for name, p := range t.all() {
		s, err := p.Stats()
		if err != nil {
			return nil, fmt.Errorf("statistics of %s: %w", name, err)
		}
		all[name] = *s
	}
	return all, nil
}
