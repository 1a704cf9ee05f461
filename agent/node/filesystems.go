package node

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fs"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// What a filesystem is called, after what stands on it.
const (
	fsImages     = "images"     // unpacked layers
	fsContent    = "content"    // blobs, as they were pulled
	fsContainers = "containers" // writable layers
	fsKubelet    = "kubelet"
	fsLogs       = "logs"
)

// fsNames are all names. The first of those that a filesystem has speaks for it.
var fsNames = []string{fsImages, fsContent, fsContainers, fsKubelet, fsLogs}

// directory is a place whose filesystem is watched.
type directory struct {
	name, path string       // no path: not known, or not wanted
	lines      image.Policy // for a filesystem of its own
	at         fs.Identity  // where it was at the latest survey; zero: not there
	on         *filesystem
	err        error // why it is not there
}

// filesystem is a watched superblock: one, however many directories are on it,
// with one line in the kernel. What the limit of a project holds for is one of its own.
type filesystem struct {
	names   []string // in the order of fsNames
	path    string   // what it is read by
	lines   image.Policy
	reading // the latest
	line    lineState
	pace    pace // of polls
	filling fillBook

	believed belief // of removals that did not show in time
	calm     calm   // on hold
}

func (f *filesystem) name() string { return f.names[0] }

// device is its number as mountinfo has it.
func (f *filesystem) device() string { return fmt.Sprintf("%d:%d", f.Dev>>20, f.Dev&(1<<20-1)) }

// holdsImages: removing images helps here.
func (f *filesystem) holdsImages() bool { return f.name() == fsImages || f.name() == fsContent }

// ground tells filesystems apart.
type ground struct {
	dev     uint64
	project fs.Project
}

func (r reading) ground() ground { return ground{r.Dev, r.Project} }

// polls: the filesystem is read again and again, for the kernel raises no line there
// and something can be done. Others without a line are read with each look.
func (f *filesystem) polls() bool {
	return !f.line.kernel && (f.holdsImages() || f.Project.Limited)
}

// newDirectories returns those that the configuration names, and room for
// those that the runtime will.
func newDirectories(c config.Config) []directory {
	own := func(name string, d config.Directory) directory {
		return directory{name: name, path: d.Path, lines: image.Policy{
			HighPercent: d.HighThresholdPercent, InodesHighPercent: d.InodesHighThresholdPercent,
		}}
	}
	p := c.Policy()
	return []directory{
		{name: fsImages, lines: p}, {name: fsContent, lines: p}, {name: fsContainers, lines: p},
		own(fsKubelet, c.Filesystems.Kubelet), own(fsLogs, c.Filesystems.PodLogs),
	}
}

// place takes over where the runtime says that its things are.
func (a *Agent) place(roots inventory.Roots) {
	a.roots = roots
	for name, path := range map[string]string{fsImages: roots.Images, fsContent: roots.Content, fsContainers: roots.Containers} {
		d := &a.directories[slices.Index(fsNames, name)]
		if d.path != path {
			d.path, d.at = path, fs.Identity{}
		}
	}
}

// survey looks where the directories are now and follows those that moved:
// something was mounted over them, or unmounted, they came or went, or the limit of
// a project began or ended to hold for them. It returns false if all are where they were, which is cheap to find out.
func (a *Agent) survey() (moved bool) {
	stays := make(map[*filesystem]bool)
	for i := range a.directories {
		d := &a.directories[i]
		at := a.identify(d)
		switch {
		case at != d.at:
			moved, d.at, d.on = true, at, nil
		case d.on != nil:
			stays[d.on] = true
		}
	}
	if moved {
		a.regroup(stays)
	}
	return moved
}

func (a *Agent) identify(d *directory) fs.Identity {
	if d.path == "" {
		return fs.Identity{}
	}
	at, err := a.disk.Identify(d.path)
	if err != nil && (d.err == nil || d.err.Error() != err.Error()) {
		level := slog.LevelWarn
		if errors.Is(err, iofs.ErrNotExist) {
			level = slog.LevelDebug // a node without a kubelet, for one
		}
		a.log.Log(context.Background(), level, "a directory is not there; it is taken up when it comes", "filesystem", d.name, "error", err)
	}
	d.err = err
	return at
}

// regroup finds the filesystems of the directories anew. One that stays keeps
// its line; the line of one that went is cleared, for the next superblock can
// get the same number.
func (a *Agent) regroup(stays map[*filesystem]bool) {
	known := make(map[ground]*filesystem)
	for _, f := range a.filesystems {
		if stays[f] {
			f.names, known[f.ground()] = nil, f
		} else {
			a.drop(f)
		}
	}
	a.filesystems = nil
	for i := range a.directories {
		d := &a.directories[i]
		if d.at == (fs.Identity{}) {
			continue
		}
		r, err := a.stat(d.path)
		if err != nil {
			d.at, d.on, d.err = fs.Identity{}, nil, err // it went this very moment
			continue
		}
		f := known[r.ground()]
		if f == nil {
			f = &filesystem{}
			known[r.ground()] = f
		}
		if len(f.names) == 0 {
			a.filesystems = append(a.filesystems, f)
		}
		f.add(d, r)
	}
	for _, f := range known {
		if len(f.names) == 0 {
			a.drop(f)
		}
	}
	a.findStores()
	a.publish()
}

// add puts a directory on the filesystem. The first one speaks for it.
func (f *filesystem) add(d *directory, r reading) {
	d.on = f
	f.names = append(f.names, d.name)
	if len(f.names) == 1 {
		f.path, f.lines, f.reading = d.path, d.lines, r
		return
	}
	if !f.holdsImages() {
		f.lines.HighPercent = min(f.lines.HighPercent, d.lines.HighPercent)
		f.lines.InodesHighPercent = min(f.lines.InodesHighPercent, d.lines.InodesHighPercent)
	}
}

// drop ends the watching of a filesystem.
func (a *Agent) drop(f *filesystem) {
	a.log.Info("a filesystem is no longer watched", "filesystem", strings.Join(f.names, ","), "path", f.path,
		"reason", "something was mounted or unmounted there, the directory went, or the limit of a project changed")
	a.said.forget(f.topic())
	a.said.forget(f.lateTopic())
	if !f.Project.Limited { // else it had no line, but the whole may have one
		a.clearLine(f.Dev)
	}
}

func (a *Agent) clearLine(dev uint64) {
	if a.probes == nil {
		return
	}
	if err := a.probes.ClearLine(dev); err != nil && !errors.Is(err, bpf.ErrNotAttached) {
		a.log.Debug("clear the line of a former filesystem", "error", err)
	}
}

// topic is what is said of the filesystem once.
func (f *filesystem) topic() string { return "line of " + f.path }

// errMoved: the mounts, or the limit of a project, changed, and nobody has followed yet.
var errMoved = errors.New("another filesystem is there now")

// read is an exact look at a filesystem, and at no other: one that was mounted
// over its path just now is not taken for it, nor a project for the whole.
func (a *Agent) read(f *filesystem) (reading, error) {
	r, err := a.stat(f.path)
	if err == nil && r.ground() != f.ground() {
		for i := range a.directories { // the next survey looks at them anew
			if d := &a.directories[i]; d.on == f {
				d.at = fs.Identity{}
			}
		}
		err = fmt.Errorf("read the filesystem of %s: %w", f.path, errMoved)
	}
	return r, err
}

// named returns the filesystem of a directory; nil if it is not there.
func (a *Agent) named(name string) *filesystem {
	return a.directories[slices.Index(fsNames, name)].on
}

// numbered returns the watched filesystem with that device number, whole; nil if
// there is none.
func (a *Agent) numbered(dev uint64) *filesystem {
	for _, f := range a.filesystems {
		if f.Dev == dev && !f.Project.Limited {
			return f
		}
	}
	return nil
}

// findPlaces looks where everything is. Without the images there is nothing to
// decide.
func (a *Agent) findPlaces(ctx context.Context) error {
	if a.roots.Images == "" {
		roots, err := a.rt.Roots(ctx)
		if err != nil {
			return fmt.Errorf("find the image filesystem: %w", err)
		}
		a.place(roots)
	}
	a.survey()
	if d := a.directories[slices.Index(fsNames, fsImages)]; d.on == nil {
		return fmt.Errorf("read the filesystem of %s: %w", d.path, d.err)
	}
	return nil
}

// watchMounts is the goroutine that waits for mounts to change. Without it they
// are followed all the same, with each look.
func (a *Agent) watchMounts(ctx context.Context) error {
	err := a.disk.WatchMounts(ctx, a.cfg.Filesystems.MountInfo, a.mounts)
	if ctx.Err() == nil {
		a.log.Warn("mounts are not followed at once, but every "+a.cfg.ReconcileInterval.String(), "reason", err)
	}
	return nil
}

// mountsChanged follows what was mounted and unmounted. Most of it, such as a
// container's root, concerns nothing that is watched.
func (a *Agent) mountsChanged(ctx context.Context) {
	a.metrics.mounts.Inc()
	if a.rt != nil && a.survey() {
		a.look(ctx, 0)
	}
}
