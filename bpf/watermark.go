package bpf

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// MaxWatermarks is how many filesystems can have a watermark at once.
const MaxWatermarks = 16

// Watermark sets when the kernel sends an event for a filesystem: once free space is at
// or below Raise, and again only after free space was above Rearm. Space is counted in
// blocks that unprivileged writers can get, as statfs does in f_bavail; inodes as in
// f_ffree. A Raise of 0 switches that half off, space or inodes; btrfs has no half for
// inodes.
//
// A Worse that is not 0 is for a watermark that is reached already. The watermark begins
// disarmed, as if its event had been sent, and one more event comes when free space is
// at or below Worse.
type Watermark struct {
	RaiseFree, RearmFree, WorseFree       uint64
	RaiseInodes, RearmInodes, WorseInodes uint64

	// Reserved is f_bfree less f_bavail of the same reading: what ext4 keeps for root.
	// The programs see f_bfree there. On btrfs the difference means something else, and
	// is not used.
	Reserved uint64

	// Free is f_bfree of the same reading. If it is far above RaiseFree, only the far
	// program watches an ext4, at almost no cost to writers. With 0 the filesystem
	// counts as near. Other types of filesystem ignore Free.
	Free uint64
}

// SetWatermark sets or moves the watermark of a filesystem, and arms it. fsType is the
// type as mountinfo has it. Only an allocation raises the event: if free space is at or
// below the watermark already, the next allocation does. So read the free space after
// setting the watermark; on btrfs, read [Probes.Counted] too.
func (u *usage) SetWatermark(dev uint64, fsType string, l Watermark) error {
	if err := u.setWatermark(dev, fsType, l); err != nil {
		return fmt.Errorf("set watermark of %s: %w", deviceName(dev), err)
	}
	return nil
}

func (u *usage) setWatermark(dev uint64, fsType string, l Watermark) error {
	about := usageTypes[fsType]
	if about.blocksAlone {
		l.Reserved = 0
		if l.RaiseInodes != 0 {
			return fmt.Errorf("inodes: %s does not count them", fsType)
		}
	}
	if err := l.validate(); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	on := u.on[fsType]
	if on.set == nil {
		return fmt.Errorf("filesystem type %q: %w", fsType, notAttached(on.err))
	}
	for name, first := range map[string]uint64{mapGivenBack: 0, mapCounted: uncounted} {
		m := on.maps[name]
		if m == nil {
			continue // statfs shows as much
		}
		if err := m.Update(dev, first, ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return watermarksFull(err) // an existing entry is kept
		}
	}
	watches, value := on.maps[mapWatches], watchValue{
		Bytes:  kernelWatermark(l.RaiseFree, l.RearmFree, l.WorseFree, l.Reserved),
		Inodes: kernelWatermark(l.RaiseInodes, l.RearmInodes, l.WorseInodes, 0),
	}
	if on.closely != nil {
		return on.closely.setWatermark(watches, dev, l, value)
	}
	return watermarksFull(watches.Put(dev, value))
}

func watermarksFull(err error) error {
	if errors.Is(err, unix.E2BIG) {
		return fmt.Errorf("%d filesystems have a watermark: %w", MaxWatermarks, ErrFull)
	}
	return err
}

// uncounted is the figure from SetWatermark until the next allocation or commit.
const uncounted = math.MaxUint64

// Counted returns the kernel's own figure of free blocks, in the unit of RaiseFree, for
// filesystems whose statfs lags behind what was written: btrfs. It is the figure at the
// latest allocation or commit since the first SetWatermark. ok is false if there was
// none, and for every other filesystem.
func (u *usage) Counted(dev uint64) (free uint64, ok bool, err error) {
	free, ok, err = u.figure(dev, mapCounted)
	return free, ok && free != uncounted, err
}

// GivenBack returns how many blocks, in the unit of RaiseFree, were freed on a
// filesystem since the first SetWatermark, by any process and even if they were
// allocated again. xfs frees the blocks of a file a moment after the file is gone, btrfs
// at the latest with the next commit; see fs.Settle. btrfs also counts blocks that a write
// replaces.
func (u *usage) GivenBack(dev uint64) (blocks uint64, ok bool, err error) {
	return u.figure(dev, mapGivenBack)
}

// figure returns the entry of a filesystem in the maps called name; ok is false if there
// is none.
func (u *usage) figure(dev uint64, name string) (figure uint64, ok bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, m := range u.maps(name) {
		err := m.Lookup(dev, &figure)
		if err == nil {
			return figure, true, nil
		}
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return 0, false, fmt.Errorf("read figure of %s: %w", deviceName(dev), err)
		}
	}
	return 0, false, nil
}

func kernelWatermark(raise, rearm, worse, reserved uint64) watermarkValue {
	watermark := watermarkValue{Raise: raise, Rearm: rearm, Worse: worse}
	for _, figure := range []*uint64{&watermark.Raise, &watermark.Rearm, &watermark.Worse} {
		if *figure != 0 {
			*figure += reserved
		}
	}
	if worse == 0 {
		watermark.Armed = 1
	}
	return watermark
}

// validate checks the order of the figures, and that they fit the kernel's signed
// arithmetic.
func (l Watermark) validate() error {
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

// ClearWatermark stops watching a filesystem, of whatever type.
func (u *usage) ClearWatermark(dev uint64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	var err error
	if len(u.maps(mapWatches)) == 0 {
		err = notAttached(u.reason())
	}
	for _, name := range watermarkMaps {
		for _, m := range u.maps(name) {
			err = errors.Join(err, deleteKey(m, dev))
		}
	}
	for _, on := range u.on {
		err = errors.Join(err, on.closely.leave(dev))
	}
	if err != nil {
		return fmt.Errorf("clear watermark of %s: %w", deviceName(dev), err)
	}
	return nil
}

// deviceName writes a device as mountinfo does.
func deviceName(dev uint64) string { return fmt.Sprintf("%d:%d", dev>>20, dev&(1<<20-1)) }

// BootTime returns CLOCK_BOOTTIME, the clock of all stamps, in nanoseconds.
func BootTime() (uint64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("read boot time: %w", err)
	}
	return uint64(time.Duration(ts.Nano())), nil
}
