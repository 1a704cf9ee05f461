package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/node"
)

// Limits of an agent and its node.
const (
	mostRSS         = 128 // MiB
	mostDescriptors = 256
	mostThreads     = 64
	mostGoroutines  = 128
	mostLoopBlocked = 100 // milliseconds
	mostLeases      = 32
	mostSnapshots   = 1000
	agentLabel      = "ebb-agent.github.io/layer-view" // on each lease of the agent
	mostUnready     = 0.5                              // percent, without planned outages
	enoughLooks     = 200                              // to judge readiness by
	enoughSteps     = 100                              // to have seen a lease
)

// watch samples until ctx ends. It fails at the first violation, unless goOn is set.
func (b *fixture) watch(ctx context.Context, fail func(error)) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	printed := 0
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var st unix.Statfs_t
		if err := unix.Statfs(b.node.Mount(), &st); err == nil {
			b.oracle.Disk(100-100*float64(st.Bavail)/float64(st.Blocks), time.Now())
			if st.Flags&unix.ST_RDONLY != 0 {
				fail(fmt.Errorf("the node's %s has become read-only", b.options.fs))
				return
			}
		}
		if n%5 == 0 {
			b.lookReady(ctx)
		}
		if n%10 == 0 {
			b.measure(ctx)
		}
		all := b.oracle.Violations()
		for ; printed < len(all); printed++ {
			benchmark.Say("VIOLATION %s", all[printed])
			if !b.goOn {
				fail(fmt.Errorf("violation: %s", all[printed]))
				return
			}
		}
	}
}

// lookReady counts readiness outside planned faults.
func (b *fixture) lookReady(ctx context.Context) {
	p := b.running()
	if p == nil || b.oracle.Excused(time.Now()) {
		return
	}
	answer, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := p.Get(answer, "/readyz")
	if ctx.Err() != nil || b.oracle.Excused(time.Now()) || b.running() != p {
		return // an outage began meanwhile
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	if err == nil {
		b.ready++
	} else if err.Error() != b.unready {
		b.unready = err.Error()
		benchmark.Say("not ready: %s", b.unready)
	}
}

// measure records what the agent's process takes. A process that has just ended takes nothing.
func (b *fixture) measure(ctx context.Context) {
	p := b.running()
	if p == nil {
		return
	}
	u, err := p.Usage()
	if err != nil {
		return
	}
	count := func(dir string) int {
		entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/%s", p.PID(), dir))
		return len(entries)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	goroutines, _ := p.Metric(ctx, "go_goroutines") // 0 while it does not answer; readiness shows that
	blocked, _ := p.Metric(ctx, "ebb_node_loop_blocked_seconds_max")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen.GoroutinesMax = max(b.seen.GoroutinesMax, int(goroutines))
	b.seen.LoopBlockedMsMax = max(b.seen.LoopBlockedMsMax, result.Round(1000*blocked))
	b.seen.RSSMiBMax = max(b.seen.RSSMiBMax, result.Round(u.PeakMiB()))
	b.seen.DescriptorsMax, b.seen.ThreadsMax = max(b.seen.DescriptorsMax, count("fd")), max(b.seen.ThreadsMax, count("task"))
}

// countRuntime counts what containerd holds.
func (b *fixture) countRuntime(ctx context.Context) error {
	ctx = namespaces.WithNamespace(ctx, node.CRINamespace)
	leases, err := b.node.Client().LeasesService().List(ctx, fmt.Sprintf("labels.%q", agentLabel)) // others are the driver's
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	n := 0
	if err := b.node.Client().SnapshotService(snapshotter).Walk(ctx, func(context.Context, snapshots.Info) error { n++; return nil }); err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen.LeasesMax, b.seen.SnapshotsMax = max(b.seen.LeasesMax, len(leases)), max(b.seen.SnapshotsMax, n)
	return nil
}

// figures returns the figures so far. A figure beyond its limit is a violation.
func (b *fixture) figures() figures {
	b.mu.Lock()
	f := b.seen
	if b.looks > 0 {
		f.ReadyPercent = result.Round(100 * float64(b.ready) / float64(b.looks))
	}
	unready := 0.0
	if b.looks >= enoughLooks {
		unready = 100 - f.ReadyPercent
	}
	b.mu.Unlock()
	for _, c := range []struct {
		what     string
		is, most float64
	}{
		{"percent of looks not ready", unready, mostUnready}, {"resident MiB", f.RSSMiBMax, mostRSS}, {"descriptors", float64(f.DescriptorsMax), mostDescriptors}, {"threads", float64(f.ThreadsMax), mostThreads},
		{"goroutines", float64(f.GoroutinesMax), mostGoroutines},
		{"milliseconds in which the agent's loop heard nothing", f.LoopBlockedMsMax, mostLoopBlocked},
		{"leases", float64(f.LeasesMax), mostLeases}, {"snapshots", float64(f.SnapshotsMax), mostSnapshots},
	} {
		if c.is > c.most {
			b.oracle.Exceeds(c.what, c.is, c.most, time.Now())
		}
	}
	of := b.oracle.Figures()
	f.Removals, f.WrongRemovals, f.BeyondNeed, f.LinesMinuteMax = of.Removals, of.WrongRemovals, of.BeyondNeed, of.Lines
	f.PodsGone, f.PodLeftSMax = of.PodsGone, result.Round(of.PodLeft.Seconds())
	f.LateSecondsMax, f.LastUseErrorSMax = result.Round(of.Late.Seconds()), result.Round(of.LastUse.Seconds())
	f.OtherViolations = len(b.oracle.Violations()) - f.WrongRemovals
	return f
}
