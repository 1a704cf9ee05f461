package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/tools/loopfs"
)

const (
	fileSize = 256 * mib // on ext4
	headroom = 64 * mib  // on xfs and btrfs
	rewrites = 20        // headrooms' worth
	// The size of the file that is overwritten. btrfs keeps an extent while any part of it is used,
	// so only overwriting the whole file takes no space.
	overSize = 16 * mib
)

// spurious counts events that come although the watermark was not reached.
type spurious struct {
	probes    *bpf.Probes
	events    <-chan event
	fs        *loopfs.FS
	watermark bpf.Watermark
	buffer    []byte
	count     int
}

func measureSpurious(ctx context.Context, b *fixture, s settings, figures map[string]any) (err error) {
	pinDir := filepath.Join(b.dir, "pins-of-spurious")
	p, err := loadProbes(ctx, pinDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(), removePins(pinDir)) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &spurious{probes: p, events: receive(ctx, p), buffer: make([]byte, mib)}

	c.fs = b.disk
	if err := c.fillAndRemove(ctx, s.written); err != nil {
		return fmt.Errorf("spurious events on ext4: %w", err)
	}
	figures["spurious_per_10_gib_ext4"] = result.Round(float64(c.count) * 10 * gib / float64(s.written))
	for _, fs := range b.others {
		c.fs, c.count = fs, 0
		if err := c.overwrite(ctx); err != nil {
			return fmt.Errorf("spurious events on %s: %w", fs.Kind, err)
		}
		figures["spurious_per_headroom_"+fs.Kind] = result.Round(float64(c.count) / rewrites)
	}
	benchmark.Say("spurious events: %v per 10 GiB on ext4; per headroom's worth of overwriting %v on xfs, %v on btrfs",
		figures["spurious_per_10_gib_ext4"], figures["spurious_per_headroom_xfs"], figures["spurious_per_headroom_btrfs"])
	return nil
}

// setWatermark sets the watermark this many bytes below the present free space.
func (c *spurious) setWatermark(below uint64) error {
	if err := c.fs.Sync(); err != nil {
		return err
	}
	free, _, err := c.fs.Free()
	if err != nil {
		return err
	}
	raise := free - below/4096
	c.watermark = bpf.Watermark{RaiseFree: raise, RearmFree: raise, Free: free}
	return c.probes.SetWatermark(c.fs.Dev, c.fs.Kind, c.watermark)
}

// look handles the events that have arrived, as the agent does: it reads the true free space and,
// if that is above the watermark, sets the watermark again.
func (c *spurious) look() error {
	for {
		select {
		case e := <-c.events:
			if e.Dev != c.fs.Dev {
				continue
			}
			if c.fs.Kind == "btrfs" {
				if err := c.fs.Sync(); err != nil {
					return err
				}
			}
			free, _, err := c.fs.Free()
			if err != nil {
				return err
			}
			if free <= c.watermark.RaiseFree {
				return fmt.Errorf("the watermark was reached: %d free, watermark %d", free, c.watermark.RaiseFree)
			}
			c.count++
			c.watermark.Free = free
			if err := c.probes.SetWatermark(c.fs.Dev, c.fs.Kind, c.watermark); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// fillAndRemove writes files that end within 1 % of their size before the watermark.
func (c *spurious) fillAndRemove(ctx context.Context, bytes int64) error {
	if err := c.setWatermark(fileSize + fileSize/100); err != nil {
		return err
	}
	name := filepath.Join(c.fs.Dir, "spurious")
	defer os.Remove(name)
	for ; bytes > 0; bytes -= fileSize {
		f, err := os.Create(name)
		if err != nil {
			return err
		}
		err = c.write(ctx, f, fileSize)
		// The removal itself frees what write-back has not reached.
		if err := errors.Join(err, f.Close(), os.Remove(name), c.look()); err != nil {
			return err
		}
	}
	return nil
}

// overwrite writes over one file again and again.
func (c *spurious) overwrite(ctx context.Context) error {
	f, err := os.Create(filepath.Join(c.fs.Dir, "spurious"))
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		os.Remove(f.Name())
	}()
	if err := c.write(ctx, f, overSize); err != nil {
		return err
	}
	if err := c.setWatermark(headroom); err != nil {
		return err
	}
	for range rewrites * headroom / overSize {
		if err := errors.Join(c.write(ctx, f, overSize), unix.Fdatasync(int(f.Fd()))); err != nil {
			return err
		}
	}
	return nil
}

func (c *spurious) write(ctx context.Context, f *os.File, size int64) error {
	for at := int64(0); at < size; at += mib {
		if _, err := f.WriteAt(c.buffer, at); err != nil {
			return err
		}
		if err := errors.Join(c.look(), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}
