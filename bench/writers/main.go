// Command writers measures reclaim beside a process that fills the disk with buffered writes. On a disk at
// 76 % with ten unused images, it writes 1.6 GiB, so that the high threshold is crossed several times. For how
// long is the disk over the threshold while images are left?
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

const (
	mib       = 1 << 20
	diskBytes = 4 << 30
	images    = 10
	imageMiB  = 100 // twice that on disk: compressed content, which does not compress, and the layer
	writeMiB  = 1600
	high      = 80 // the default of the agent

	writeEach  = 10 * time.Millisecond
	sampleEach = 2 * time.Millisecond
)

// measurement is of one filesystem and one speed of the writer.
type measurement struct {
	FS         string  `json:"fs"`
	Asked      int     `json:"asked_mib_s"`
	Wrote      float64 `json:"wrote_mib_s"`      // how fast the writer was
	Containerd float64 `json:"containerd_mib_s"` // how fast a removal through the CRI frees an image, without a writer
	Over       float64 `json:"over_ms"`          // the longest time over the threshold while images were left
	Most       float64 `json:"most_percent"`     // the most that was used while images were left
	Removed    int     `json:"removed"`          // images
}

func main() {
	agent := flag.String("agent", "bin/ebb-agent", "the ebb-agent binary to measure")
	kinds := flag.String("fs", "ext4,xfs,btrfs", "filesystems, with commas between them")
	speeds := flag.String("speeds", "100,400", "of the writer, in MiB/s")
	results := flag.String("results", result.Dir, "where writers.json goes")
	flag.Parse()
	benchmark.Main("bench-writers", func(ctx context.Context) error {
		var all []measurement
		fmt.Fprintf(os.Stderr, "%-6s %14s %18s %9s %7s %8s\n", "", "writer MiB/s", "containerd MiB/s", "over ms", "most %", "removed")
		for fs := range strings.SplitSeq(*kinds, ",") {
			for text := range strings.SplitSeq(*speeds, ",") {
				speed, err := strconv.Atoi(text)
				if err != nil || speed < 1 {
					return fmt.Errorf("-speeds: %q: want a number above 0", text)
				}
				m, err := measure(ctx, *agent, fs, speed)
				if err != nil {
					return fmt.Errorf("%s, %d MiB/s: %w", fs, speed, err)
				}
				fmt.Fprintf(os.Stderr, "%-6s %7.0f of %3d %18.0f %9.0f %7.1f %8d\n", m.FS, m.Wrote, m.Asked, m.Containerd, m.Over, m.Most, m.Removed)
				all = append(all, m)
			}
		}
		return result.Write(*results, "writers", map[string]any{"writers": all})
	})
}

func measure(ctx context.Context, binary, fs string, speed int) (m measurement, err error) {
	m = measurement{FS: fs, Asked: speed}
	n, err := node.Start(ctx, node.Config{Name: "writers-" + fs, FS: fs, SizeBytes: diskBytes, Containerd: node.V2})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	i, err := agentrun.Install(ctx, n)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	if m.Containerd, err = alone(ctx, n); err != nil {
		return m, err
	}
	for k := range images {
		if _, err := n.Import(ctx, node.CRINamespace, sample(k)); err != nil {
			return m, err
		}
	}
	if err := n.FillTo("base", 76); err != nil {
		return m, err
	}
	var removed atomic.Int32
	c := i.Config
	c.Images.MinimumAge = 0
	p, err := agentrun.Start(ctx, agentrun.Options{Binary: binary, Dir: n.Dir(), Config: c, OnLine: func(l agentrun.Line) {
		if l.Message == "image removed" {
			removed.Add(1)
		}
	}})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	err = m.watch(ctx, n, &removed)
	m.Removed = int(removed.Load())
	return m, err
}

func sample(k int) node.Image {
	return node.Image{
		Name:   fmt.Sprintf("writers.test/image:%d", k),
		Layers: []node.Layer{{Seed: fmt.Sprintf("layer-%d", k), Bytes: imageMiB * mib, Files: 400}},
	}
}

// alone returns how fast the runtime frees the space of an image, in MiB/s, if nothing else happens.
func alone(ctx context.Context, n *node.Node) (float64, error) {
	id, err := n.Import(ctx, node.CRINamespace, sample(images))
	if err != nil {
		return 0, err
	}
	before, err := n.AtRest(ctx)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	_, cri := n.CRI()
	if _, err := cri.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: id}}); err != nil {
		return 0, err
	}
	for {
		now, err := n.Usage()
		if err != nil {
			return 0, err
		}
		if freed := float64(now.AvailableBytes) - float64(before.AvailableBytes); freed >= imageMiB*mib*9/10 {
			return freed / mib / time.Since(begun).Seconds(), nil
		}
		if err := benchmark.Pause(ctx, sampleEach); err != nil {
			return 0, err
		}
	}
}

// errStays ends a measurement in which the disk stays over the threshold: when a disk is quite full, containerd
// cannot always note that an image is to go.
var errStays = errors.New("the disk stays over the threshold")

// watch writes, and reads how full the disk is, until everything is written and the disk is below the
// threshold again, or no image is left.
func (m *measurement) watch(ctx context.Context, n *node.Node, removed *atomic.Int32) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errStays)
	written, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		var err error
		m.Wrote, err = write(ctx, filepath.Join(n.Mount(), "written"), m.Asked)
		written <- err
	}()
	defer func() { cancel(); <-done }() // before the disk is unmounted
	ended := false
	var over time.Time // since then; zero: the disk is below the threshold
	for {
		used, err := usedPercent(n.Mount())
		if err != nil {
			return err
		}
		if removed.Load() == images {
			over = time.Time{}
		} else if m.Most = max(m.Most, used); used < high {
			over = time.Time{}
		} else if over.IsZero() {
			over = time.Now()
		}
		if !over.IsZero() {
			m.Over = max(m.Over, float64(time.Since(over).Milliseconds()))
		}
		if ended && over.IsZero() {
			return nil
		}
		select {
		case err := <-written:
			if ended = true; err != nil && !errors.Is(err, unix.ENOSPC) {
				return err
			}
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, errStays) {
				return err
			}
			return nil // which Over shows
		case <-time.After(sampleEach):
		}
	}
}

// usedPercent reads how full a filesystem is, as statfs shows it at that moment.
func usedPercent(path string) (float64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return 100 - 100*float64(st.Bavail)/float64(st.Blocks), nil
}

// write writes writeMiB at that speed, in MiB/s, and returns the speed that it reached.
func write(ctx context.Context, path string, speed int) (reached float64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	data := make([]byte, int64(speed)*mib*int64(writeEach)/int64(time.Second))
	for n := range data {
		data[n] = byte(n * 7)
	}
	begun := time.Now()
	var total int64
	for total < writeMiB*mib {
		due := begun.Add(time.Duration(float64(total) / mib / float64(speed) * float64(time.Second)))
		if err := benchmark.Pause(ctx, time.Until(due)); err != nil {
			return 0, err
		}
		wrote, err := f.Write(data)
		if total += int64(wrote); err != nil {
			return float64(total) / mib / time.Since(begun).Seconds(), err
		}
	}
	return float64(total) / mib / time.Since(begun).Seconds(), nil
}
