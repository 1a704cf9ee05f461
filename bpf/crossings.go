package bpf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sync/errgroup"
)

// Crossing is the event of a filesystem whose free space fell to its watermark, or
// near it. Free may have changed since; the caller reads the exact figure and sets
// the watermark again.
type Crossing struct {
	Dev    uint64
	Inodes bool   // inodes ran low, not space
	Near   bool   // not reached, but watched closely from now on
	BootNS uint64 // CLOCK_BOOTTIME
	Free   uint64 // blocks, the reserved ones included; or inodes
}

// Crossings sends events to out until ctx ends, and then returns ctx's error. Between
// events it sleeps in the kernel. Only one caller at a time is allowed. Events raised
// while there is no caller wait in the ring buffer. An event that out has not taken
// when ctx ends is dropped: the next caller reads the figure and sets the watermark
// again.
func (u *usage) Crossings(ctx context.Context, out chan<- Crossing) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		read := map[string]bool{}
		for {
			rings, more, err := u.rings()
			if err != nil {
				return fmt.Errorf("read crossings: %w", err)
			}
			for fsType, ring := range rings {
				if read[fsType] {
					continue
				}
				read[fsType] = true
				g.Go(func() error {
					if err := u.readCrossings(ctx, fsType, ring, out); err != nil {
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

// rings returns the ring buffers that exist, by type of filesystem, and a channel
// that is closed when another one is added.
func (u *usage) rings() (map[string]*ebpf.Map, <-chan struct{}, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.on == nil {
		return nil, nil, ErrNotAttached // closed
	}
	all := map[string]*ebpf.Map{}
	for fsType, on := range u.on {
		if on.set != nil {
			all[fsType] = on.set.maps[mapCrossings]
		}
	}
	return all, u.more, nil
}

// readCrossings sends the events of one ring buffer to out. It returns only with an
// error.
func (u *usage) readCrossings(ctx context.Context, fsType string, ring *ebpf.Map, out chan<- Crossing) error {
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
			u.watchClosely(fsType, crossing.Dev, crossing.Free)
		}
		select {
		case out <- crossing:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Resources, as enum resource in headers/watermark.h.
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
