package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

const mib = 1 << 20

// fixture is a node with images that nothing uses, and a disk to fill.
type fixture struct {
	node      *node.Node
	installed *agentrun.Installation
	images    []node.Image
	sizes     map[string]uint64 // bytes that a pull of each brings, by name
	each      float64           // percent of the disk that each takes
}

func newFixture(ctx context.Context, name string) (*fixture, error) {
	n, err := node.Start(ctx, node.Config{Name: name, FS: "ext4", SizeBytes: 1 << 30, Containerd: node.V2})
	if err != nil {
		return nil, err
	}
	b := &fixture{node: n, sizes: make(map[string]uint64)}
	if b.installed, err = agentrun.Install(ctx, n); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	if err := b.populate(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *fixture) close() error { return errors.Join(b.installed.Close(), b.node.Close()) }

// populate imports images that take imagePercent of the disk each: half of it for the pulled blob,
// half for the unpacked files.
func (b *fixture) populate(ctx context.Context) error {
	before, err := b.node.Usage()
	if err != nil {
		return err
	}
	layer := int64(before.CapacityBytes) * imagePercent / 200
	for i := range unusedImages {
		b.images = append(b.images, node.Image{
			Name:   fmt.Sprintf("node.test/unused:%d", i),
			Layers: []node.Layer{{Seed: fmt.Sprint("node-", i), Bytes: layer, Files: 16}},
		})
	}
	if _, err := b.node.ImportAll(ctx, node.CRINamespace, b.images); err != nil {
		return err
	}
	after, err := b.node.Usage()
	if err != nil {
		return err
	}
	b.each = (after.UsedPercent - before.UsedPercent) / unusedImages
	if after.UsedPercent >= highPercent-2 {
		return fmt.Errorf("the images alone fill the disk to %.1f %%", after.UsedPercent)
	}
	present, err := b.present(ctx)
	if err != nil {
		return err
	}
	for _, i := range b.images {
		b.sizes[i.Name] = present[i.Name]
	}
	return nil
}

// needed returns how many images must be removed to get from one used percentage to another.
func (b *fixture) needed(from, to float64) int { return int(math.Ceil((from - to) / b.each)) }

// present returns the images on the node, with the sizes that the CRI reports.
func (b *fixture) present(ctx context.Context) (map[string]uint64, error) {
	_, cri := b.node.CRI()
	list, err := cri.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	names := make(map[string]uint64)
	for _, i := range list.Images {
		for _, name := range i.RepoTags {
			names[name] = i.Size
		}
	}
	return names, nil
}

func (b *fixture) missing(ctx context.Context) (list []node.Image, bytes uint64, err error) {
	present, err := b.present(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, i := range b.images {
		if _, ok := present[i.Name]; !ok {
			list, bytes = append(list, i), bytes+b.sizes[i.Name]
		}
	}
	return list, bytes, nil
}

// bringBack imports the missing images, as the next use of each would pull it, and returns how many
// bytes that is.
func (b *fixture) bringBack(ctx context.Context) (uint64, error) {
	list, bytes, err := b.missing(ctx)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	_, err = b.node.ImportAll(ctx, node.CRINamespace, list)
	return bytes, err
}

// settled waits until no image has come or gone for the time quiet, or until none is left. It
// returns how many images are missing.
func (b *fixture) settled(ctx context.Context, quiet time.Duration) (int, error) {
	last, since := -1, time.Now()
	err := benchmark.Until(ctx, 50*time.Millisecond, 3*time.Minute, "the images keep changing", func(context.Context) (bool, error) {
		list, _, err := b.missing(ctx)
		if len(list) != last {
			last, since = len(list), time.Now()
		}
		return last == len(b.images) || time.Since(since) >= quiet, err
	})
	return last, err
}

func (b *fixture) path(name string) string { return filepath.Join(b.node.Mount(), "bench-"+name) }

// available returns what is free right now, without a sync: ext4 needs none for it.
func (b *fixture) available() (bytes int64, percentUsed float64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(b.node.Mount(), &st); err != nil {
		return 0, 0, fmt.Errorf("read usage: %w", err)
	}
	bytes = int64(st.Bavail) * st.Frsize
	return bytes, 100 - 100*float64(st.Bavail)/float64(st.Blocks), nil
}

// fill allocates space with one call, so that the disk is at once as full as asked. It returns the
// time of that call and the bytes that are free after it.
func (b *fixture) fill(percent float64) (at time.Time, free int64, err error) {
	u, err := b.node.Usage()
	if err != nil {
		return at, 0, err
	}
	f, err := os.OpenFile(b.path("fill"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return at, 0, fmt.Errorf("fill: %w", err)
	}
	free = int64(float64(u.CapacityBytes) * (100 - percent) / 100)
	at = time.Now()
	err = unix.Fallocate(int(f.Fd()), 0, 0, int64(u.AvailableBytes)-free)
	if err := errors.Join(err, f.Close()); err != nil {
		return at, 0, fmt.Errorf("fill: %w", err)
	}
	return at, free, nil
}

func (b *fixture) empty() error {
	for _, name := range []string{"fill", "writer"} {
		if err := os.Remove(b.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("empty: %w", err)
		}
	}
	return nil
}

// outcome is the result of one crossing.
type outcome struct {
	trace       *trace
	removed     int
	used        float64
	pulledAgain uint64
}

// run fills the disk over the threshold and watches it until nothing has happened for the time
// quiet. Then it frees the space and imports the missing images again. All contenders are measured
// by free space, which is also what a pod's write needs.
func (b *fixture) run(ctx context.Context, threshold float64, timeout, quiet time.Duration) (o outcome, err error) {
	at, free, err := b.fill(filledPercent)
	if err != nil {
		return o, err
	}
	o.trace = newTrace(threshold, free+int64(b.sizes[b.images[0].Name]/2))
	// In a goroutine of its own, because the runtime's answers take longer than 2 ms.
	looking, enough := context.WithCancel(ctx)
	defer enough()
	var g errgroup.Group
	g.Go(func() error { return o.trace.follow(looking, at, b.available) })
	err = o.trace.awaitRoom(looking, timeout)
	if err == nil {
		o.removed, err = b.settled(ctx, quiet)
	}
	enough()
	if err := errors.Join(err, g.Wait()); err != nil {
		return o, err
	}
	u, err := b.node.Usage()
	if err != nil {
		return o, err
	}
	o.used = u.UsedPercent
	if err := b.empty(); err != nil {
		return o, err
	}
	o.pulledAgain, err = b.bringBack(ctx)
	return o, err
}

// written is what happened to a writer.
type written struct {
	errors        int           // writes that failed for want of space
	overThreshold time.Duration // longest uninterrupted time over the eviction threshold

	since time.Time // over the threshold now; zero if below
}

func (w *written) look(used float64) {
	switch {
	case used < evictionPercent:
		w.since = time.Time{}
	case w.since.IsZero():
		w.since = time.Now()
	default:
		w.overThreshold = max(w.overThreshold, time.Since(w.since))
	}
}

// fullSpeed is the speed of the page cache.
const fullSpeed = 0

// write writes percent of the disk, at speed percent per second. If there is no space for a write,
// it retries after a moment, until writerPatience has passed.
func (b *fixture) write(ctx context.Context, percent, speed float64) (w written, err error) {
	u, err := b.node.Usage()
	if err != nil {
		return w, err
	}
	f, err := os.OpenFile(b.path("writer"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return w, fmt.Errorf("write: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	chunk, begun := make([]byte, mib), time.Now()
	total := int64(float64(u.CapacityBytes) * percent / 100)
	for left := total; left > 0; {
		n, err := f.Write(chunk[:min(left, mib)])
		left -= int64(n)
		if errors.Is(err, unix.ENOSPC) {
			w.errors++
			if time.Since(begun) > writerPatience {
				return w, nil
			}
			err = benchmark.Pause(ctx, 50*time.Millisecond)
		} else if err == nil && speed != fullSpeed {
			due := percent / speed * float64(total-left) / float64(total)
			err = benchmark.Pause(ctx, time.Until(begun.Add(time.Duration(due*float64(time.Second)))))
		}
		if err != nil {
			return w, fmt.Errorf("write: %w", err)
		}
		_, used, err := b.available()
		if err != nil {
			return w, err
		}
		w.look(used)
	}
	return w, nil
}
