package node

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// postedEvents keeps the Events that an agent writes.
type postedEvents struct {
	mu   sync.Mutex
	list []kube.NodeEvent
}

func (p *postedEvents) PostEvent(ctx context.Context, e kube.NodeEvent) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", kube.ErrUnavailable, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, e)
	return nil
}

// want checks the reasons of the Events since the last call, and that the last one has all of the words.
func (p *postedEvents) want(t *testing.T, reasons string, words ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var got []string
	message := ""
	for _, e := range p.list {
		got, message = append(got, e.Reason), e.Message
	}
	p.list = nil
	if !slices.Equal(got, strings.Fields(reasons)) {
		t.Errorf("posted %q, want %q", got, reasons)
	}
	for _, word := range words {
		if !strings.Contains(message, word) {
			t.Errorf("%q does not contain %q", message, word)
		}
	}
}

// A hold is reported once, whether the agent removes or observes, and not again by the next agent.
func TestHoldIsReported(t *testing.T) {
	for _, mode := range []config.Mode{config.ModeEnforce, config.ModeObserve} {
		inWorld(t, func(w *world) {
			w.cfg.Mode = mode
			posted := &postedEvents{}
			w.events = posted
			w.five()
			w.run("i0", "i1", "i2", "i3", "i4")
			w.pass(time.Minute)
			w.fill(85)
			w.pass(time.Minute)
			posted.want(t, "EbbHold", "the low threshold of /", "cannot be reached", "in_use 200MiB", "not_images ", "ebb plan")
			w.fill(87)
			w.down()
			w.up()
			w.pass(time.Hour)
			posted.want(t, "")
		})
	}
}

// A run that the hourly cap ends is reported, and one that reaches its goal is not.
func TestShortRunIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		posted := &postedEvents{}
		w.events = posted
		w.five()
		w.fill(81)
		w.pass(time.Minute)
		posted.want(t, "")
		w.down()
		w.cfg.Images.MaxRemovalsPerHour = "3"
		w.up()
		w.fill(84)
		w.pass(time.Minute)
		posted.want(t, "EbbReclaimShort", "(threshold) ended capped: images.maxRemovalsPerHour", "1 images removed, 0 removals failed", "40MiB freed")
	})
}

// Events name who pauses and who resumes, whatever they call themselves.
func TestPauseIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		posted := &postedEvents{}
		w.events = posted
		w.five()
		w.pause(60)
		w.pass(time.Second)
		posted.want(t, "EbbPaused", `"jane" paused ebb until `, `for "a look first"`)
		w.ask(http.MethodPost, "/resume", nil, nil)
		w.ask(http.MethodPost, "/resume", nil, nil)
		w.pass(time.Second)
		posted.want(t, "EbbResumed", `"jane" asked for it`)
		w.pass(time.Minute)
		w.pause(30)
		w.pass(time.Minute)
		posted.want(t, "EbbPaused EbbResumed", "the pause is over")
	})
}

// An image that is removed and pulled in a circle is reported from the third time on.
func TestCircleIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		posted := &postedEvents{}
		w.events = posted
		ids := w.many(9)
		for round := range 4 {
			for n := 1; n < 9; n++ {
				w.use(fmt.Sprintf("docker.io/library/i%02d:latest", n))
			}
			if !slices.Contains(w.removedBy(func() { w.fill(81); w.pass(time.Minute) }), ids[0]) {
				t.Fatalf("round %d: it did not go", round)
			}
			w.rt.SetDisk(size, 0, 100000)
			for n := range 9 {
				w.add(fmt.Sprintf("docker.io/library/i%02d:latest", n), 20)
			}
			w.pass(time.Minute)
			if round < 2 {
				posted.want(t, "")
			}
		}
		w.pass(time.Hour)
		posted.mu.Lock()
		defer posted.mu.Unlock()
		p := slices.DeleteFunc(posted.list, func(e kube.NodeEvent) bool { return !strings.Contains(e.Message, `"docker.io/library/i00:latest"`) })
		if len(p) != 2 || p[0].Reason != "EbbPulledAgain" || !p[0].Warning || !strings.Contains(p[1].Message, "4th time") || p[1].Count != 2 {
			t.Errorf("posted %+v", p)
		}
	})
}

// removedBy is what goes while f does something.
func (w *world) removedBy(f func()) []string {
	before := len(w.rt.Removed())
	f()
	return w.rt.Removed()[before:]
}
