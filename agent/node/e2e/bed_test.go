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

	agent "github.com/ebb-agent/ebb/agent/node"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
)

// running is an agent, in a process of its own or in the test.
type running interface {
	Get(ctx context.Context, path string) (string, error)
	Stop() error
	Kill() error
}

// bed is a node with an agent on it.
type bed struct {
	*testing.T
	ctx     context.Context
	node    *node.Node
	fs      string        // what the node is on
	config  config.Config // of the next agent
	binary  string
	journal *journal
	agent   running // nil while none runs
	cast    *cast
	runs    int // containers made so far
}

// diskBytes is enough for a dozen small images, and quickly full. Some
// filesystems need more.
const diskBytes = 256 * mib

var moreBytes = map[string]int64{"xfs": 320 * mib, "btrfs": 512 * mib}

var beds atomic.Int64

// newBed makes a node of that flavor, on ext4, with these images on it. No
// agent runs yet.
func newBed(t *testing.T, flavor node.Flavor, images ...node.Image) *bed {
	t.Helper()
	return newBedOn(t, "ext4", flavor, images...)
}

// newBedOn is newBed on another filesystem.
func newBedOn(t *testing.T, fs string, flavor node.Flavor, images ...node.Image) *bed {
	t.Helper()
	return newBedWith(t, node.Config{Containerd: flavor, FS: fs}, images...)
}

// newBedWith is newBed on a node that is special in more than that.
func newBedWith(t *testing.T, c node.Config, images ...node.Image) *bed {
	t.Helper()
	fs := cmp.Or(c.FS, "ext4")
	c.Name = fmt.Sprintf("e2e-%d-%d", os.Getpid(), beds.Add(1))
	c.SizeBytes = max(diskBytes, moreBytes[fs])
	n := nodetest.Start(t, c)
	b := &bed{T: t, ctx: t.Context(), node: n, fs: fs, config: agentrun.ConfigFor(n), binary: binary, journal: newJournal(), cast: newCast()}
	b.config.Images.MinimumAge = 0
	b.config.Images.HighThresholdPercent, b.config.Images.LowThresholdPercent = 80, 60
	t.Cleanup(b.clean)
	b.importImages(images...)
	return b
}

func (b *bed) clean() {
	if b.Failed() {
		b.Logf("the agent's log ends with:\n%s", b.journal)
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

// checkLogFile looks for what an agent never says as a line of its log.
func (b *bed) checkLogFile() {
	log, err := os.ReadFile(filepath.Join(b.node.Dir(), "agent.log"))
	if err != nil {
		return // no agent ran as a process
	}
	if at := crash.FindIndex(log); at != nil {
		b.Errorf("FINAL: an agent crashed or raced:\n%.8000s", log[at[0]:])
	}
}

// must fails the test on an error of the surroundings.
func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bed) importImages(images ...node.Image) {
	b.Helper()
	if len(images) == 0 {
		return
	}
	ids, err := b.node.ImportAll(b.ctx, node.CRINamespace, images)
	b.must(err)
	for n, i := range images {
		b.cast.images[nameOf(i)], b.cast.ids[nameOf(i)] = i, ids[n]
	}
}

func (b *bed) options() agentrun.Options {
	return agentrun.Options{Binary: b.binary, Dir: b.node.Dir(), Config: b.config, OnLine: b.journal.add}
}

// start runs the agent until it is ready.
func (b *bed) start() {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	p, err := agentrun.Start(ctx, b.options())
	b.must(err)
	b.agent = p
}

// startUnready runs the agent until it serves.
func (b *bed) startUnready() {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	p, err := agentrun.StartUnready(ctx, b.options())
	b.must(err)
	b.agent = p
}

func (b *bed) stop() {
	b.Helper()
	a := b.agent
	b.agent = nil
	if err := a.Stop(); err != nil {
		b.Errorf("stop agent: %v", err)
	}
}

func (b *bed) kill() {
	b.Helper()
	a := b.agent
	b.agent = nil
	b.must(a.Kill())
}

// eventually waits until ask has no more objection.
func (b *bed) eventually(what string, ask func() error) {
	b.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("waited in vain for %s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond) // between two looks, not instead of one
	}
}

// awaitReady waits until the agent is ready.
func (b *bed) awaitReady() {
	b.Helper()
	b.eventually("readiness", func() error { _, err := b.agent.Get(b.ctx, "/readyz"); return err })
}

// awaitNotReady waits until /readyz gives a reason that contains all of words.
func (b *bed) awaitNotReady(words ...string) {
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
func (b *bed) images() (e agent.Explanation, err error) {
	body, err := b.agent.Get(b.ctx, "/images")
	if err == nil {
		err = json.Unmarshal([]byte(body), &e)
	}
	return e, err
}

// verdict returns what the agent thinks of one image; an image that it does
// not know has none.
func (b *bed) verdict(id string) (agent.ImageExplanation, error) {
	e, err := b.images()
	for _, i := range e.Images {
		if i.ID == id {
			return i, err
		}
	}
	if err == nil {
		err = fmt.Errorf("the agent does not know image %s", b.cast.name(id))
	}
	return agent.ImageExplanation{}, err
}

// awaitReason waits until the agent gives that reason for an image.
func (b *bed) awaitReason(name, reason string) {
	b.Helper()
	b.eventually("reason "+reason+" for "+name, func() error {
		i, err := b.verdict(b.cast.ids[name])
		if err == nil && i.Reason != reason {
			err = fmt.Errorf("the reason is %s: %s", i.Reason, i.Detail)
		}
		return err
	})
}

// awaitOrder waits until the agent's order of last use is the true one.
func (b *bed) awaitOrder() {
	b.Helper()
	b.eventually("the order of last use", func() error {
		e, err := b.images()
		if err == nil {
			err = b.cast.misplaced(e)
		}
		return err
	})
}

// metric reads one series, written as in the exposition format.
func (b *bed) metric(series string) float64 {
	b.Helper()
	v, there := b.seriesOf(series)
	if !there {
		b.Fatalf("no series %s", series)
	}
	return v
}

func (b *bed) seriesOf(series string) (v float64, there bool) {
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

// awaitMetric waits until a series has that value.
func (b *bed) awaitAtLeast(series string, least float64) {
	b.Helper()
	b.eventually(fmt.Sprintf("%s %g or more", series, least), func() error {
		if got, there := b.seriesOf(series); !there || got < least {
			return fmt.Errorf("it is %g, there: %v", got, there)
		}
		return nil
	})
}

func (b *bed) awaitMetric(series string, want float64) {
	b.Helper()
	b.eventually(fmt.Sprintf("%s %g", series, want), func() error {
		if got, there := b.seriesOf(series); !there || got != want {
			return fmt.Errorf("it is %g, there: %v", got, there)
		}
		return nil
	})
}
