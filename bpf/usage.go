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
	"golang.org/x/sys/unix"
)

// MaxLines is how many filesystems can have a line at once.
const MaxLines = 16

// Line says when to be told about a filesystem: once free space is at or below
// Raise, and not again before it was above Rearm. Space is counted in the
// filesystem's blocks as statfs does in f_bfree, inodes as in f_ffree. A Raise
// of 0 switches that half off.
//
// A Worse that is not 0 is for a line that is reached already: the line begins
// disarmed, as if its event had been sent, and one more event comes when free
// space is at or below Worse.
type Line struct {
	RaiseFree, RearmFree, WorseFree       uint64
	RaiseInodes, RearmInodes, WorseInodes uint64
}

// Crossing is a filesystem that came down to its line. Free may have changed
// since; the caller reads the exact figure and sets the line again.
type Crossing struct {
	Dev    uint64
	Inodes bool   // inodes ran low, not space
	BootNS uint64 // CLOCK_BOOTTIME
	Free   uint64 // blocks or inodes
}

// SetLine watches a filesystem, or moves its line, and arms it. An allocation
// raises the event: if free space is at or below the line already, only the
// next allocation does. So read the figure after setting the line.
func (p *Probes) SetLine(dev uint64, l Line) error {
	if err := l.validate(); err != nil {
		return fmt.Errorf("set line of %s: %w", deviceName(dev), err)
	}
	watches, err := p.usageMap(usageMapWatches)
	if err != nil {
		return fmt.Errorf("set line of %s: %w", deviceName(dev), err)
	}
	err = watches.Put(dev, usageWatch{
		Bytes:  kernelLine(l.RaiseFree, l.RearmFree, l.WorseFree),
		Inodes: kernelLine(l.RaiseInodes, l.RearmInodes, l.WorseInodes),
	})
	if errors.Is(err, unix.E2BIG) {
		err = fmt.Errorf("%d filesystems have a line: %w", MaxLines, ErrFull)
	}
	if err != nil {
		return fmt.Errorf("set line of %s: %w", deviceName(dev), err)
	}
	return nil
}

func kernelLine(raise, rearm, worse uint64) usageLine {
	line := usageLine{Raise: raise, Rearm: rearm, Worse: worse}
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
		if half.rearm > math.MaxInt64 {
			return fmt.Errorf("%s: rearm %d is too large", half.name, half.rearm)
		}
	}
	return nil
}

// ClearLine stops watching a filesystem.
func (p *Probes) ClearLine(dev uint64) error {
	watches, err := p.usageMap(usageMapWatches)
	if err != nil {
		return fmt.Errorf("clear line of %s: %w", deviceName(dev), err)
	}
	if err := watches.Delete(dev); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("clear line of %s: %w", deviceName(dev), err)
	}
	return nil
}

// Crossings sends events to out until ctx ends, and then returns its error. It
// sleeps in the kernel in between. One caller at a time; events raised while
// there is none wait in the ring buffer. One that out has not taken when ctx
// ends is dropped: whoever comes next reads the figure and sets the line anew.
func (p *Probes) Crossings(ctx context.Context, out chan<- Crossing) error {
	ring, err := p.usageMap(usageMapCrossings)
	if err != nil {
		return fmt.Errorf("read crossings: %w", err)
	}
	reader, err := ringbuf.NewReader(ring)
	if err != nil {
		return fmt.Errorf("read crossings: %w", err)
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
			return fmt.Errorf("read crossings: %w", err)
		}
		crossing, err := decodeCrossing(record.RawSample)
		if err != nil {
			return fmt.Errorf("read crossings: %w", err)
		}
		select {
		case out <- crossing:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Resources, as enum resource in usage.bpf.c.
const (
	resourceBytes = iota
	resourceInodes
)

// decodeCrossing reads a struct crossing.
func decodeCrossing(raw []byte) (Crossing, error) {
	var c usageCrossing
	if len(raw) < binary.Size(c) {
		return Crossing{}, fmt.Errorf("crossing of %d bytes, want %d", len(raw), binary.Size(c))
	}
	if _, err := binary.Decode(raw, binary.NativeEndian, &c); err != nil {
		return Crossing{}, fmt.Errorf("decode crossing: %w", err)
	}
	if c.Resource != resourceBytes && c.Resource != resourceInodes {
		return Crossing{}, fmt.Errorf("crossing of unknown resource %d", c.Resource)
	}
	return Crossing{
		Dev:    c.Dev,
		Inodes: c.Resource == resourceInodes,
		BootNS: c.BootNs,
		Free:   c.Free,
	}, nil
}

// usageMap returns a map of usage.bpf.c.
func (p *Probes) usageMap(name string) (*ebpf.Map, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.usage == nil {
		return nil, notAttached(p.usageErr)
	}
	return p.usage.maps[name], nil
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
