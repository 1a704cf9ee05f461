package metadata

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/ebb-agent/ebb/policy/gc"
)

// TestSure: observations may be acted on until the API server has been away for a while,
// and again once each follower has reported its state since, or has ended.
func TestSure(t *testing.T) {
	now := time.Now()
	client := &Client{timing: timing{spread: time.Hour}} // nobody looks again by himself
	c := &client.continuity
	c.after = awayAfter
	want := func(what string, sure bool) <-chan struct{} {
		t.Helper()
		got, changed := c.isSure(now)
		if got != sure || got == (changed != nil) {
			t.Errorf("%s: sure is %v", what, got)
		}
		return changed
	}
	var followers [3]*Follower
	var leave [4]func()
	for i := range followers {
		followers[i] = &Follower{c: client}
		leave[i] = c.join(followers[i])
	}
	leave[3] = c.join(&Follower{c: client, t: gc.Type{Aggregated: true}})
	c.hear(now)
	want("there", true)
	c.miss(now, false)
	want("just cut", true)
	c.hear(now.Add(time.Second))
	c.miss(now, false)
	now = now.Add(awayAfter)
	changed := want("away", false)
	epoch := c.hear(now)
	want("it answers", false)
	c.begun(followers[0], epoch)
	c.begun(followers[1], epoch-1)
	if c.behind(followers[0]) || !c.behind(followers[1]) || c.behind(followers[2]) {
		t.Error("who has something open from before is mistaken")
	}
	if c.ended(followers[1]); c.behind(followers[1]) {
		t.Error("it is over")
	}
	c.settled(followers[0], epoch)
	c.settled(followers[0], epoch) // once is enough
	c.settled(followers[1], epoch-1)
	want("two are to come", false)
	c.settled(followers[1], epoch)
	want("one is to come", false)
	select {
	case <-changed:
		t.Error("notified too early")
	default:
	}
	leave[2]()
	<-changed
	want("all have reported", true)
	for _, i := range []int{0, 1, 3} {
		leave[i]()
	}
	c.miss(now, false)
	now = now.Add(awayAfter)
	changed = want("away again", false)
	c.hear(now)
	<-changed
	want("nobody has anything to report", true)
}

// TestInterruptedBatch: what a follower could not hand on, because an absence ended its
// attempt, does not count as reported: the type is listed, although its history stands.
func TestInterruptedBatch(t *testing.T) {
	s := newRecordingSink()
	goOn := make(chan struct{})
	first := func(t *testing.T, w http.ResponseWriter, r *http.Request) {
		watching(obj(1), end("110"))(t, w, r)
		<-goOn
		watching(obj(20))(t, w, r)
		<-r.Context().Done()
	}
	c := serve(t, &script{t: t, steps: []step{{"stream", first}, {"stream", watching(obj(1), obj(20), end("130"), nil)}}}, Options{})
	c.timing.spread = 0
	witness := &seer{make(chan LeaseCheck, 1)}
	c.Trust(witness)
	c.Wrote(100, time.Now(), false, false)
	blocked := false
	start(t, c.Follow(anyType, nil, func(ctx context.Context, batch []Event) error {
		if !blocked && batch[len(batch)-1].Object.Name == "o20" {
			blocked = true
			c.continuity.mu.Lock()
			c.continuity.begin(bound{written: c.continuity.last, sure: true})
			c.continuity.mu.Unlock()
			<-ctx.Done()
			return ctx.Err()
		}
		return s.sink(ctx, batch)
	}))
	s.expect(t, "listing", "observed o1", "synced 110")
	c.Wrote(200, time.Now(), true, false)
	witness.sights <- LeaseCheck{true, 300}
	close(goOn)
	s.expect(t, "listing", "observed o1", "synced 110", "away", "listing", "observed o1", "observed o20", "synced 130")
	if sure, changed := c.Sure(); !sure {
		<-changed
	}
}

// TestUnsureOnTheWay: a request that waited for a connection is not sent if the API server
// was away meanwhile, be it by HTTP/1 or by HTTP/2.
func TestUnsureOnTheWay(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		var asked atomic.Int32
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err != nil {
				return // nobody carries out half a request
			}
			asked.Add(1)
			w.Header().Set("Content-Type", mediaJSON)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success","details":{"name":"a","kind":"things","uid":"u"}}`)
		}))
		server.EnableHTTP2 = http2
		server.StartTLS()
		t.Cleanup(server.Close)
		dials, goOn := make(chan struct{}, 9), make(chan struct{})
		c, err := New(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials <- struct{}{}
			<-goOn
			return new(net.Dialer).DialContext(ctx, network, address)
		}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		leave := c.continuity.join(&Follower{c: c})
		c.continuity.hear(time.Now().Add(-time.Minute))
		do := func() Outcome {
			return c.Do(t.Context(), gc.Action{Verb: gc.Delete, ResourceVersion: "1",
				Object: gc.Coordinates{APIVersion: "example.com/v1", Kind: "Thing", Resource: "things", Namespace: "n", Name: "a", UID: "u"}}, true)
		}
		out := make(chan Outcome)
		go func() { out <- do() }()
		<-dials
		c.continuity.miss(time.Now().Add(-time.Minute), false)
		close(goOn)
		if o := <-out; o.Result != gc.TooMany || !errors.Is(o.Err, errUnsure) || asked.Load() != 0 {
			t.Errorf("HTTP/2 %v: %+v, asked %d times", http2, o, asked.Load())
		}
		leave()
		c.continuity.hear(time.Now())
		if o := do(); o.Result != gc.Done || asked.Load() != 1 {
			t.Errorf("HTTP/2 %v, sure again: %+v, asked %d times", http2, o, asked.Load())
		}
	}
}
