package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/tools/node"
)

// filled is how the filling of a disk ended.
type filled struct {
	at  time.Time
	err error
}

// fillSteadily takes so many bytes a second until unprivileged writers have none left. What
// a busy machine has held up it makes up for.
func (b *fixture) fillSteadily(ctx context.Context, perSecond float64) <-chan filled {
	end := make(chan filled, 1)
	go func() {
		err := os.Mkdir(filepath.Join(b.node.Mount(), "steady"), 0o711)
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		const step = mib / 4
		var free unix.Statfs_t
		for begun, files := time.Now(), 0; err == nil; {
			for float64(files*step) < time.Since(begun).Seconds()*perSecond && err == nil {
				err = errors.Join(allocate(filepath.Join(b.node.Mount(), "steady", fmt.Sprint(files)), step), unix.Statfs(b.node.Mount(), &free))
				if files++; errors.Is(err, unix.ENOSPC) || err == nil && free.Bavail == 0 {
					end <- filled{at: time.Now()}
					return
				}
			}
			select {
			case <-ctx.Done():
				err = context.Cause(ctx)
			case <-pace.C:
			}
		}
		end <- filled{err: err}
	}()
	return end
}

// allocate makes a file of that size. What it takes is taken at once, on every filesystem.
func allocate(path string, bytes int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, bytes), f.Close())
}

// TestTimeToFull: a real disk is full at the moment that the agent predicts while it fills, within
// a fifth of the time that was left.
func TestTimeToFull(t *testing.T) {
	t.Parallel()
	eachFilesystem(t, []string{"ext4", "xfs"}, func(t *testing.T, kind string) {
		b := newFixtureOn(t, kind, node.V2)
		b.config.Mode = config.ModeObserve
		u, err := b.node.Usage()
		b.must(err)
		ctx, cancel := context.WithTimeout(b.ctx, 2*patience)
		defer cancel()
		end := b.fillSteadily(ctx, float64(u.AvailableBytes)/60) // full in 60 s; known ten seconds after the first reading
		b.start()
		var asked, answered time.Time
		var left float64
		b.eventually("a time to full", func() (err error) {
			var known bool
			asked = time.Now()
			left, known = b.seriesOf(`ebb_node_filesystem_time_to_full_seconds{filesystem="images",resource="bytes"}`)
			if answered = time.Now(); !known || math.IsInf(left, 1) {
				err = fmt.Errorf("it is %v, known: %v", left, known)
			}
			return err
		})
		full := <-end
		b.must(full.err)
		predicted := time.Duration(left * float64(time.Second))
		off := max(0, asked.Add(predicted).Sub(full.at), full.at.Sub(answered.Add(predicted)))
		t.Logf("it was to be full after %v, and was after %v", predicted, full.at.Sub(answered))
		if predicted < 5*time.Second || off > predicted/5 {
			t.Errorf("the agent predicted full in %v: that is %v off", predicted, off)
		}
	})
}
