package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
)

// running is an agent, in a process of its own or in the test.
type running interface {
	Get(ctx context.Context, path string) (string, error)
	Stop() error
	Kill() error
}

// fixture is a node with an agent on it.
type fixture struct {
	*testing.T
	ctx      context.Context
	node     *node.Node
	fs       string        // what the node is on
	config   config.Config // of the next agent
	binary   string
	journal  *journal
	agent    running // nil while none runs
	scenario *scenario
	runs     int  // containers made so far
	tracked  bool // awaitTracked has nothing to wait for
}

// diskBytes is enough for a dozen small images, and quickly full. Some
// filesystems need more.
const diskBytes = 256 * mib

var moreBytes = map[string]int64{"xfs": 320 * mib, "btrfs": 512 * mib}

var fixtures atomic.Int64

// newFixture makes a node of that flavor, on ext4, with these images on it. No
// agent runs yet.
func newFixture(t *testing.T, flavor node.Flavor, images ...node.Image) *fixture {
	t.Helper()
	return newFixtureOn(t, "ext4", flavor, images...)
}

// newFixtureOn is newFixture on another filesystem.
func newFixtureOn(t *testing.T, fs string, flavor node.Flavor, images ...node.Image) *fixture {
	t.Helper()
	return newFixtureWith(t, node.Config{Containerd: flavor, FS: fs}, images...)
}

// newFixtureWith is newFixture on a node that is special in more than that.
func newFixtureWith(t *testing.T, c node.Config, images ...node.Image) *fixture {
	t.Helper()
	fs := cmp.Or(c.FS, "ext4")
	c.Name = fmt.Sprintf("e2e-%d-%d", os.Getpid(), fixtures.Add(1))
	c.SizeBytes = max(diskBytes, moreBytes[fs])
	n := nodetest.Start(t, c)
	b := &fixture{T: t, ctx: t.Context(), node: n, fs: fs, config: agentrun.ConfigFor(n), binary: binary, journal: newJournal(), scenario: newScenario(),
		tracked: c.Snapshotter != ""} // only layers of overlayfs are
	b.config.Images.MinimumAge = 0
	b.config.Images.HighThresholdPercent, b.config.Images.LowThresholdPercent = 80, 60
	t.Cleanup(b.clean)
	b.importImages(images...)
	return b
}

func (b *fixture) clean() {
	if b.Failed() {
		b.Logf("the agent's log ends with:\n%s", b.journal)
		u, err := b.node.Usage()
		b.Logf("the disk: %.2f %% of %d bytes used, %d available; %v", u.UsedPercent, u.CapacityBytes, u.AvailableBytes, err)
		if b.agent != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), 10*time.Second)
			status, err := b.agent.Get(ctx, "/status")
			cancel()
			b.Logf("the agent's status: %s; %v", status, err)
		}
	}
	if b.agent != nil {
		b.stop()
	}
	if err := agentrun.Unload(b.config); err != nil {
		b.Errorf("unload kernel programs: %v", err)
	}
	b.checkLogFile()
}

var crash = regexp.MustCompile(`(?m)^(panic:|fatal error:|WARNING: DATA RACE)`)

// checkLogFile looks for what an agent never writes as a line of its log.
func (b *fixture) checkLogFile() {
	log, err := os.ReadFile(filepath.Join(b.node.Dir(), "agent.log"))
	if err != nil {
		return // no agent ran as a process
	}
	if at := crash.FindIndex(log); at != nil {
		b.Errorf("FINAL: an agent crashed or raced:\n%.8000s", log[at[0]:])
	}
}

// must fails the test on an error of the surroundings.
func (b *fixture) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *fixture) importImages(images ...node.Image) {
	b.Helper()
	if len(images) == 0 {
		return
	}
	ids, err := b.node.ImportAll(b.ctx, node.CRINamespace, images)
	b.must(err)
	for n, i := range images {
		b.scenario.images[nameOf(i)], b.scenario.ids[nameOf(i)] = i, ids[n]
	}
}

// deadProxy is where nothing listens: no agent may ask a socket by way of a proxy.
var deadProxy = []string{"HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1", "ALL_PROXY=http://127.0.0.1:1"}

func (b *fixture) options() agentrun.Options {
	return agentrun.Options{Binary: b.binary, Dir: b.node.Dir(), Config: b.config, Env: deadProxy, OnLine: b.journal.add}
}

// start runs the agent until it is ready.
func (b *fixture) start() {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	p, err := agentrun.Start(ctx, b.options())
	b.must(err)
	b.agent = p
}

// startUnready runs the agent until it serves.
func (b *fixture) startUnready() {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	p, err := agentrun.StartUnready(ctx, b.options())
	b.must(err)
	b.agent = p
}

func (b *fixture) stop() {
	b.Helper()
	a := b.agent
	b.agent = nil
	if err := a.Stop(); err != nil {
		b.Errorf("stop agent: %v", err)
	}
}

func (b *fixture) kill() {
	b.Helper()
	a := b.agent
	b.agent = nil
	b.must(a.Kill())
}

// eventually waits until ask has no more objection.
func (b *fixture) eventually(what string, ask func() error) {
	b.Helper()
	await.Holds(b, patience, what, func(context.Context) error { return ask() })
}

// awaitReady waits until the agent is ready.
func (b *fixture) awaitReady() {
	b.Helper()
	b.eventually("readiness", func() error { _, err := b.agent.Get(b.ctx, "/readyz"); return err })
}

// awaitNotReady waits until /readyz gives a reason that contains all of words.
func (b *fixture) awaitNotReady(words ...string) {
	b.Helper()
	b.eventually("the reason at /readyz", func() error {
		_, err := b.agent.Get(b.ctx, "/readyz")
		if err == nil || !strings.Contains(err.Error(), "status 503") {
			return fmt.Errorf("not a 503: %v", err)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				return fmt.Errorf("%q is not in: %w", w, err)
			}
		}
		return nil
	})
}

// images asks the agent what it thinks of each image.
func (b *fixture) images() (e page.Images, err error) { return e, b.page("/images", &e) }

// status asks the agent for its status and that of its node.
func (b *fixture) status() (s page.Status, err error) {
	return s, b.page("/status", &s)
}

// page reads a page of the agent's admin socket.
func (b *fixture) page(path string, into any) error {
	body, err := b.agent.Get(b.ctx, path)
	if err == nil {
		err = json.Unmarshal([]byte(body), into)
	}
	return err
}

// verdict returns what the agent thinks of one image; an image that it does
// not know has none.
func (b *fixture) verdict(id string) (page.Image, error) {
	e, err := b.images()
	for _, i := range e.Images {
		if i.ID == id {
			return i, err
		}
	}
	if err == nil {
		err = fmt.Errorf("the agent does not know image %s", b.scenario.name(id))
	}
	return page.Image{}, err
}

// awaitReason waits until the agent gives that reason for an image.
func (b *fixture) awaitReason(name, reason string) {
	b.Helper()
	b.eventually("reason "+reason+" for "+name, func() error {
		i, err := b.verdict(b.scenario.ids[name])
		if err == nil && i.Reason != reason {
			err = fmt.Errorf("the reason is %s: %s", i.Reason, i.Detail)
		}
		return err
	})
}

// awaitOrder waits until the agent's order of last use is the true one.
func (b *fixture) awaitOrder() {
	b.Helper()
	b.eventually("the order of last use", func() error {
		e, err := b.images()
		if err == nil {
			err = b.scenario.misplaced(e)
		}
		return err
	})
}

// metric reads one series, written as in the exposition format.
func (b *fixture) metric(series string) float64 {
	b.Helper()
	v, there := b.seriesOf(series)
	if !there {
		b.Fatalf("no series %s", series)
	}
	return v
}

func (b *fixture) seriesOf(series string) (v float64, there bool) {
	b.Helper()
	body, err := b.agent.Get(b.ctx, "/metrics")
	b.must(err)
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			_, err := fmt.Sscan(rest, &v)
			b.must(err)
			return v, true
		}
	}
	return 0, false
}

// awaitAtLeast waits until a series has that value, or more.
func (b *fixture) awaitAtLeast(series string, least float64) {
	b.Helper()
	b.eventually(fmt.Sprintf("%s %g or more", series, least), func() error {
		if got, there := b.seriesOf(series); !there || got < least {
			return fmt.Errorf("it is %g, there: %v", got, there)
		}
		return nil
	})
}

// awaitMetric waits until a series has that value.
func (b *fixture) awaitMetric(series string, want float64) {
	b.Helper()
	b.eventually(fmt.Sprintf("%s %g", series, want), func() error {
		if got, there := b.seriesOf(series); !there || got != want {
			return fmt.Errorf("it is %g, there: %v", got, there)
		}
		return nil
	})
}
