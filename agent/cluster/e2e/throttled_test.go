package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

const level = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/ebb-controller"

// The API server lets the controller's requests through three at a time and queues
// two, and answers 429 to all others: fewer are sent, everything is done all the same, and
// once there is room again it goes as fast as before.
func TestThrottled(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.define(t, "v1")
	r := b.start(t, b.kubeconfig, func(c *config.Config) { c.Concurrency = config.Concurrency{Start: 32, Max: 32} })
	r.awaitState(t, "widgets.example.com", "synced")
	g := b.guard(t)
	shares := func(n, length int) {
		b.Must(t, http.MethodPatch, level, object{"spec": object{"limited": object{"nominalConcurrencyShares": n, "lendablePercent": 0, "borrowingLimitPercent": 0,
			"limitResponse": object{"queuing": object{"queueLengthLimit": length}}}}})
		await.Holds(t, patience, "the level to have been taken over", func(ctx context.Context) error {
			seats, err := b.flow(ctx, "apiserver_flowcontrol_nominal_limit_seats")
			if err == nil && (seats < 10) != (n < 10) {
				err = fmt.Errorf("%v seats", seats)
			}
			return err
		})
	}
	shares(1, 2)
	const n = 60
	s := b.scenario(t)
	s.make("cm/o", "cm/p", "cm/q")
	s.many("secret", "cm/o", n)
	s.many("widget", "cm/p", n)
	s.many("rs", "cm/q", n)
	lowest, done := r.lowest(t)
	s.begin()
	s.want("-cm/o", "-cm/p", "-cm/q")
	s.awaitLeft("secret", 0, 0)
	s.awaitLeft("widget", 0, 0)
	s.awaitLeft("rs", n, 0)
	done()
	rejected, err := b.flow(t.Context(), "apiserver_flowcontrol_rejected_requests_total")
	if err != nil {
		t.Fatal(err)
	}
	throttled := r.metric(t, "requests_throttled_total")
	t.Logf("the API server refused %v, of which %v changes and reads; at the least %v at a time", rejected, throttled, *lowest)
	if rejected == 0 || throttled == 0 || *lowest > 8 {
		t.Error("it was not throttled, or did not give way")
	}
	g.check(t)
	r.awaitSynced(t)
	shares(20, 200)
	s = b.scenario(t)
	s.make("cm/o")
	s.many("secret", "cm/o", 400)
	s.remove("cm/o", background)
	s.awaitLeft("secret", 0, 0)
	if now := r.metric(t, "request_concurrency_limit"); now <= *lowest {
		t.Errorf("%v at a time, and there is room again", now)
	}
}

// The API server refuses each change of 200 objects as invalid, because their type's schema is now
// stricter than when they were made. That does not slow what is deleted beside them, and once the
// schema lets them, they go.
func TestInvalid(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.define(t, "v1")
	r := b.start(t, b.kubeconfig, func(c *config.Config) { c.Concurrency = config.Concurrency{Start: 8, Max: 8} })
	r.awaitState(t, "widgets.example.com", "synced")
	const n = 200
	s := b.scenario(t)
	for i := range n {
		s.make(fmt.Sprintf("widget/w-%d + foregroundDeletion", i))
	}
	strict := widgets("v1")
	version := strict["spec"].(object)["versions"].([]any)[0].(object)
	version["schema"].(object)["openAPIV3Schema"].(object)["not"] = object{"required": []any{"kind"}} // none can pass
	b.Define(t, strict)
	await.Holds(t, patience, "the strict schema to refuse", func(ctx context.Context) error {
		if err := b.Ask(ctx, http.MethodPatch, s.path("widget/w-0"), object{"metadata": object{"labels": object{"a": "b"}}}, nil); err == nil {
			return errors.New("it does not")
		}
		return nil
	})
	lowest, done := r.lowest(t)
	for i := range n {
		s.remove(fmt.Sprintf("widget/w-%d", i), foreground)
	}
	for range 5 {
		s := b.scenario(t)
		s.make("cm/o")
		s.many("secret", "cm/o", n)
		begun := time.Now()
		s.remove("cm/o", background)
		s.awaitLeft("secret", 0, 0)
		t.Logf("%d dependents in %v", n, time.Since(begun))
	}
	done()
	s.awaitLeft("widget", n, 0)
	if *lowest < 8 {
		t.Errorf("at the least %v requests at a time", *lowest)
	}
	b.define(t, "v1")
	s.awaitLeft("widget", 0, 0)
}

// lowest watches how many requests may be on their way.
func (r *running) lowest(t *testing.T) (lowest *float64, done func()) {
	lowest = new(float64)
	*lowest = r.metric(t, "request_concurrency_limit")
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				*lowest = min(*lowest, r.metric(t, "request_concurrency_limit"))
			}
		}
	}()
	return lowest, func() { close(end); <-ended }
}

// flow sums up a metric of the API server for the controller's priority level.
func (b *fixture) flow(ctx context.Context, name string) (sum float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL()+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := b.Admin.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, name+"{") || !strings.Contains(line, `priority_level="ebb-controller"`) {
			continue
		}
		v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return sum, lines.Err()
}
