package bpf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// MaxLines is how many filesystems can have a line at once.
const MaxLines = 16

// Line says when to be told about a filesystem: once free space is at or below
// Raise, and not again before it was above Rearm. Space is counted in blocks
// that unprivileged writers can get, as statfs does in f_bavail; inodes as in
// f_ffree. A Raise of 0 switches that half off; btrfs has no second half.
//
// A Worse that is not 0 is for a line that is reached already: the line begins
// disarmed, as if its event had been sent, and one more event comes when free
// space is at or below Worse.
type Line struct {
	RaiseFree, RearmFree, WorseFree       uint64
	RaiseInodes, RearmInodes, WorseInodes uint64

	// Reserved is f_bfree less f_bavail of the same reading: what ext4 keeps
	// for root. The programs see f_bfree there. With btrfs the difference means
	// something else, and is not used.
	Reserved uint64

	// Free is f_bfree of the same reading. If that is far above RaiseFree, ext4
	// is watched from afar, which writers do not feel; 0 is close, as is every
	// other filesystem.
	Free uint64
}

// Crossing is a filesystem that came down to its line, or near it. Free may have
// changed since; the caller reads the exact figure and sets the line again.
type Crossing struct {
	Dev    uint64
	Inodes bool   // inodes ran low, not space
	Near   bool   // not reached, but watched closely from now on
	BootNS uint64 // CLOCK_BOOTTIME
	Free   uint64 // blocks, with what is reserved; or inodes
}

// SetLine watches a filesystem, or moves its line, and arms it. The type is as
// mountinfo has it. An allocation raises the event: if free space is at or below
// the line already, only the next allocation does. So read the figure after
// setting the line; on btrfs, read [Probes.Counted] too.
func (p *Probes) SetLine(dev uint64, fsType string, l Line) error {
	if err := p.setLine(dev, fsType, l); err != nil {
		return fmt.Errorf("set line of %s: %w", deviceName(dev), err)
	}
	return nil
}

func (p *Probes) setLine(dev uint64, fsType string, l Line) error {
	if fsType == "btrfs" {
		l.Reserved = 0
		if l.RaiseInodes != 0 {
			return fmt.Errorf("inodes: btrfs does not count them")
		}
	}
	if err := l.validate(); err != nil {
		return err
	}
	watches, err := p.usageMap(fsType, mapWatches)
	if err != nil {
		return err
	}
	if err := p.startCounting(dev, fsType); err != nil {
		return err
	}
	value := watchValue{
		Bytes:  kernelLine(l.RaiseFree, l.RearmFree, l.WorseFree, l.Reserved),
		Inodes: kernelLine(l.RaiseInodes, l.RearmInodes, l.WorseInodes, 0),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if closely := p.usage[fsType].closely; closely != nil {
		return closely.setClosely(watches, dev, l, value)
	}
	return lineFull(watches.Put(dev, value))
}

func lineFull(err error) error {
	if errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("%d filesystems have a line: %w", MaxLines, ErrFull)
	}
	return err
}

// figures are what an object counts besides, and begins with.
var figures = map[string]struct {
	name  string // of the map
	first uint64
}{"btrfs": {mapCounted, uncounted}, "ext4": {mapGivenBack, 0}}

// startCounting makes room for the figure of a filesystem, if there is none.
func (p *Probes) startCounting(dev uint64, fsType string) error {
	figure, ok := figures[fsType]
	if !ok {
		return nil
	}
	m, err := p.usageMap(fsType, figure.name)
	if err != nil {
		return err
	}
	err = m.Update(dev, figure.first, ebpf.UpdateNoExist)
	if errors.Is(err, ebpf.ErrKeyExist) {
		return nil
	}
	return lineFull(err)
}

// uncounted: a line was set, and nothing happened on the filesystem since.
const uncounted = math.MaxUint64

// Counted returns the kernel's own figure of free blocks, in the measure of
// RaiseFree, for filesystems whose statfs lags behind what was written: btrfs.
// It is the figure at the latest allocation or commit since the first SetLine;
// ok is false if there was none, and for every other filesystem.
func (p *Probes) Counted(dev uint64) (free uint64, ok bool, err error) {
	free, ok, err = p.figure(dev, "btrfs")
	return free, ok && free != uncounted, err
}

// GivenBack returns how many blocks, in the measure of RaiseFree, were freed on a
// filesystem since the first SetLine, whoever did it and whoever took them again.
// ok is false for every filesystem but ext4: others give back what was only
// promised, too, or free blocks long after a file has gone.
func (p *Probes) GivenBack(dev uint64) (blocks uint64, ok bool, err error) {
	return p.figure(dev, "ext4")
}

func (p *Probes) figure(dev uint64, fsType string) (figure uint64, ok bool, err error) {
	if !p.CanWatch(fsType) {
		return 0, false, nil
	}
	m, err := p.usageMap(fsType, figures[fsType].name)
	if err == nil {
		err = m.Lookup(dev, &figure)
	}
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read figure of %s: %w", deviceName(dev), err)
	}
	return figure, true, nil
}

func kernelLine(raise, rearm, worse, reserved uint64) lineValue {
	line := lineValue{Raise: raise, Rearm: rearm, Worse: worse}
	for _, figure := range []*uint64{&line.Raise, &line.Rearm, &line.Worse} {
		if *figure != 0 {
			*figure += reserved
		}
	}
	if worse == 0 {
		line.Armed = 1
	}
	return line
}

// validate keeps figures within what the kernel computes with.
func (l Line) validate() error {
	for _, half := range []struct {
		name                string
		raise, rearm, worse uint64
	}{{"free", l.RaiseFree, l.RearmFree, l.WorseFree}, {"inodes", l.RaiseInodes, l.RearmInodes, l.WorseInodes}} {
		if half.worse > half.raise {
			return fmt.Errorf("%s: worse %d is above raise %d", half.name, half.worse, half.raise)
		}
		if half.raise > half.rearm {
			return fmt.Errorf("%s: raise %d is above rearm %d", half.name, half.raise, half.rearm)
		}
		if half.rearm > math.MaxInt64 || l.Reserved > math.MaxInt64-half.rearm {
			return fmt.Errorf("%s: rearm %d is too large", half.name, half.rearm)
		}
	}
	return nil
}

// ClearLine stops watching a filesystem.
func (p *Probes) ClearLine(dev uint64) error {
	watches, err := p.usageMaps(mapWatches)
	if err != nil {
		return fmt.Errorf("clear line of %s: %w", deviceName(dev), err)
	}
	for fsType, figure := range figures {
		if m, err := p.usageMap(fsType, figure.name); err == nil {
			watches = append(watches, m)
		}
	}
	for _, m := range watches {
		if err := m.Delete(dev); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("clear line of %s: %w", deviceName(dev), err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.usage["ext4"].closely.leave(dev); err != nil {
		return fmt.Errorf("clear line of %s: %w", deviceName(dev), err)
	}
	return nil
}

// Crossings sends events to out until ctx ends, and then returns its error. It
// sleeps in the kernel in between. One caller at a time; events raised while
// there is none wait in the ring buffer. One that out has not taken when ctx
// ends is dropped: whoever comes next reads the figure and sets the line anew.
func (p *Probes) Crossings(ctx context.Context, out chan<- Crossing) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		read := map[*ebpf.Map]bool{}
		for {
			rings, more, err := p.rings()
			if err != nil {
				return fmt.Errorf("read crossings: %w", err)
			}
			for _, ring := range rings {
				if read[ring] {
					continue
				}
				read[ring] = true
				g.Go(func() error {
					if err := p.readCrossings(ctx, ring, out); err != nil {
						return fmt.Errorf("read crossings: %w", err)
					}
					return nil
				})
			}
			select {
			case <-more:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return g.Wait()
}

// rings returns the ring buffers there are, and what is closed once there are
// others.
func (p *Probes) rings() ([]*ebpf.Map, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lock == nil {
		return nil, nil, ErrNotAttached // closed
	}
	var all []*ebpf.Map
	for _, fsType := range fsTypes {
		if u := p.usage[fsType]; u.set != nil {
			all = append(all, u.maps[mapCrossings])
		}
	}
	return all, p.more, nil
}

// readCrossings reads one ring; it ends only with an error.
func (p *Probes) readCrossings(ctx context.Context, ring *ebpf.Map, out chan<- Crossing) error {
	reader, err := ringbuf.NewReader(ring)
	if err != nil {
		return err
	}
	defer reader.Close()
	// Closing is what wakes a blocked Read.
	stop := context.AfterFunc(ctx, func() { reader.Close() })
	defer stop()
	for {
		record, err := reader.Read()
		if ctx.Err() != nil && errors.Is(err, os.ErrClosed) {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		crossing, err := decodeCrossing(record.RawSample)
		if err != nil {
			return err
		}
		if crossing.Near {
			p.comeNear(crossing.Dev, crossing.Free)
		}
		select {
		case out <- crossing:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Resources, as enum resource in headers/line.h.
const (
	resourceBytes = iota
	resourceInodes
	resourceNear
)

// decodeCrossing reads a struct crossing.
func decodeCrossing(raw []byte) (Crossing, error) {
	var c crossingValue
	if len(raw) < binary.Size(c) {
		return Crossing{}, fmt.Errorf("crossing of %d bytes, want %d", len(raw), binary.Size(c))
	}
	if _, err := binary.Decode(raw, binary.NativeEndian, &c); err != nil {
		return Crossing{}, fmt.Errorf("decode crossing: %w", err)
	}
	if c.Resource > resourceNear {
		return Crossing{}, fmt.Errorf("crossing of unknown resource %d", c.Resource)
	}
	return Crossing{
		Dev:    c.Dev,
		Inodes: c.Resource == resourceInodes,
		Near:   c.Resource == resourceNear,
		BootNS: c.BootNs,
		Free:   c.Free,
	}, nil
}

// deviceName writes a device as mountinfo does.
func deviceName(dev uint64) string { return fmt.Sprintf("%d:%d", dev>>20, dev&(1<<20-1)) }

// BootTime returns the clock stamps are made with, now.
func BootTime() (uint64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("read boot time: %w", err)
	}
	return uint64(time.Duration(ts.Nano())), nil
}
