package fs

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/policy/image"
)

// A request that the kernel misses is made again, more and more rarely, until one of them has the commit begin. The
// first that returned counts, unless it failed.
func TestCommitIsAskedForAgain(t *testing.T) {
	for name, c := range map[string]struct {
		missed int           // the next one is not
		fail   error         // of the one that is not missed
		want   time.Duration // until they are answered
	}{
		"at once":     {0, nil, 0},
		"missed once": {1, nil, commitAgain},
		"missed five": {5, nil, 15 * commitAgain},
		"missed many": {20, nil, (3 + 4*14 + 8 + 16 + 32 + 64) * commitAgain},
		"refused":     {1, unix.EROFS, commitAgain},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := make(chan struct{})
				var asked atomic.Int64
				ask := func() (uint64, error) {
					n := int(asked.Add(1)) - 1
					if n < c.missed {
						<-begun
						return uint64(100 + n), c.fail
					}
					close(begun)
					time.Sleep(time.Millisecond) // the others return before it
					return 7, nil
				}
				start := time.Now()
				got, err := startCommit(ask)
				if took := time.Since(start).Truncate(commitAgain); err != nil || took != c.want || int(asked.Load()) != c.missed+1 {
					t.Errorf("%v, after %v and %d requests; want %v and %d", err, took, asked.Load(), c.want, c.missed+1)
				}
				if own := c.missed == 0 || c.fail != nil; own != (got == 7) {
					t.Errorf("it waits for transaction %d", got)
				}
			})
		})
	}
	if _, err := startCommit(func() (uint64, error) { return 0, unix.EROFS }); !errors.Is(err, unix.EROFS) {
		t.Errorf("got %v, want EROFS", err)
	}
}

// While a block group is being removed, statfs leaves it out: a reading waits until it is gone, for a while.
func TestReadingWaitsForBlockGroups(t *testing.T) {
	const whole, without = 500, 400
	for name, c := range map[string]struct {
		removed time.Duration // when the group is gone
		want    uint64
		after   time.Duration
	}{
		"none":     {0, whole, 0},
		"soon":     {7 * time.Millisecond, whole, 10 * time.Millisecond},
		"for long": {time.Hour, without + 1, groupsMost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				removing := func() bool { return time.Since(start) < c.removed }
				read := func() (d image.Disk, err error) {
					switch {
					case !removing():
						d.AvailableBytes = whole
					case time.Since(start) == 100*time.Millisecond: // another group's turn
						d.AvailableBytes = without + 1
					default:
						d.AvailableBytes = without
					}
					return d, nil
				}
				d, err := whileWhole(t.Context(), read, removing)
				if took := time.Since(start); err != nil || d.AvailableBytes != c.want || took != c.after {
					t.Errorf("%d are available after %v, %v; want %d after %v", d.AvailableBytes, took, err, c.want, c.after)
				}
			})
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := fmt.Errorf("enough")
	cancel(stop)
	read := func() (image.Disk, error) { return image.Disk{AvailableBytes: without}, nil }
	if d, err := whileWhole(ctx, read, func() bool { return true }); !errors.Is(err, stop) || d.AvailableBytes != without {
		t.Errorf("%d are available, %v", d.AvailableBytes, err)
	}
}
