package metadata

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What was observed holds after an absence as far as the last own write before it reaches,
// if that is still there.
func TestStands(t *testing.T) {
	start := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	pods := schema.GroupResource{Resource: "pods"}
	type step func(c *continuity, at func(float64) time.Time)
	write := func(second float64, version uint64, follows bool) step {
		return func(c *continuity, at func(float64) time.Time) {
			c.wrote(written{version, at(second - 0.01), at(second)}, follows, false)
		}
	}
	hear := func(second float64) step {
		return func(c *continuity, at func(float64) time.Time) { c.hear(at(second)) }
	}
	miss := func(second float64) step {
		return func(c *continuity, at func(float64) time.Time) { c.miss(at(second), false) }
	}
	unanswered := func(second float64) step {
		return func(c *continuity, at func(float64) time.Time) { c.notWritten(at(second)) }
	}
	look := func(second float64, same bool) step {
		return func(c *continuity, at func(float64) time.Time) { c.looked(at(second), same) }
	}
	learn := func(second float64) step {
		return func(c *continuity, at func(float64) time.Time) {
			c.touched = map[schema.GroupResource]time.Time{pods: at(second)}
		}
	}
	for name, test := range map[string]struct {
		steps []step
		want  map[uint64]standing // by the version up to which was observed
	}{
		"there all the time":        {[]step{write(0, 100, false), write(2, 110, true), hear(3)}, map[uint64]standing{50: stands, 500: stands}},
		"another connection":        {[]step{write(0, 100, false), miss(1), hear(1.5)}, map[uint64]standing{500: stands}},
		"away, not looked at yet":   {[]step{write(0, 100, false), miss(1), hear(4)}, map[uint64]standing{100: unsure, 101: fallen}},
		"away, and it is there":     {[]step{write(0, 100, false), miss(1), look(4, true)}, map[uint64]standing{100: stands, 101: fallen}},
		"away, and it is not there": {[]step{write(0, 100, false), miss(1), look(4, false)}, map[uint64]standing{1: fallen}},
		"away, and written again":   {[]step{write(0, 100, false), miss(1), hear(4), write(5, 120, true)}, map[uint64]standing{100: stands, 101: fallen, 120: fallen}},
		"written before a watch came back": {[]step{write(0, 100, false), miss(1), unanswered(2), write(5, 120, true), hear(6)},
			map[uint64]standing{100: stands, 101: fallen}},
		"written by way of another history": {[]step{write(0, 100, false), miss(1), unanswered(2), write(5, 120, false), look(6, true)},
			map[uint64]standing{1: fallen}},
		"silent, while it was written":           {[]step{write(0, 100, false), hear(1), write(2, 110, true), write(4, 120, true), miss(4.5), look(5, true)}, map[uint64]standing{500: stands}},
		"silent, and only the writes show it":    {[]step{write(0, 100, false), hear(1), unanswered(2), write(6, 120, true)}, map[uint64]standing{100: stands, 101: fallen}},
		"a write between two connections":        {[]step{write(0, 100, false), miss(0.1), write(2.2, 110, true), hear(2.5)}, map[uint64]standing{500: stands}},
		"twice away, never further than before":  {[]step{write(0, 100, false), miss(1), look(4, true), write(5, 120, true), miss(6), look(9, true)}, map[uint64]standing{100: stands, 110: fallen}},
		"no write at all":                        {[]step{hear(0), miss(1), hear(4)}, map[uint64]standing{1: fallen}},
		"learned by an answer after the write":   {[]step{write(0, 100, false), learn(0.5), miss(1), look(4, true)}, map[uint64]standing{50: fallen}},
		"learned by an answer before the write":  {[]step{learn(-1), write(0, 100, false), miss(1), look(4, true)}, map[uint64]standing{50: stands}},
		"the Lease was made anew, and then away": {[]step{write(0, 100, false), write(1, 110, false)}, map[uint64]standing{50: fallen}},
	} {
		c := continuity{after: awayAfter}
		for _, s := range test.steps {
			s(&c, func(second float64) time.Time { return start.Add(time.Duration(second * float64(time.Second))) })
		}
		for version, want := range test.want {
			if _, got := c.stands(pods, 0, version); got != want {
				t.Errorf("%s: what was observed up to %d is %d, want %d", name, version, got, want)
			}
		}
	}
}

// A type is at home if its list lies between two own writes.
func TestHome(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		list uint64
		want bool
	}{{99, false}, {100, true}, {105, true}, {110, true}, {111, false}} {
		c := continuity{after: awayAfter}
		c.wrote(written{100, now.Add(-3 * time.Second), now.Add(-2 * time.Second)}, false, false)
		home := false
		c.listed(c.floor(), test.list, func() { home = true })
		c.wrote(written{104, now.Add(-time.Second), now}, true, false) // begun before the list ended: proves nothing
		if home {
			t.Errorf("a list of %d is at home before the next write", test.list)
		}
		c.wrote(written{110, now.Add(time.Minute), now.Add(time.Minute)}, true, false)
		if home != test.want {
			t.Errorf("a list of %d: at home %t", test.list, home)
		}
	}
}

// seer is a witness whose state a test sets.
type seer struct{ sights chan LeaseCheck }

func (s *seer) Check(ctx context.Context) (LeaseCheck, error) {
	select {
	case found := <-s.sights:
		return found, nil
	case <-ctx.Done():
		return LeaseCheck{}, errors.New("nobody looks")
	}
}

// With a witness a watch is taken up after an absence; without one, or in another etcd,
// the type is listed.
func TestWitnessMeansNoList(t *testing.T) {
	for name, test := range map[string]struct {
		list  string // its version; the writes are at 100 and 200
		sight LeaseCheck
		steps []step
		want  []string
	}{
		"it is there": {"110", LeaseCheck{true, 300},
			[]step{{"watch 120", watching(obj(21), nil)}},
			[]string{"away", "observed o21"}},
		"etcd is behind what was observed": {"110", LeaseCheck{true, 119},
			[]step{{"probe", listing("130", "")}, {"watch 120", watching(obj(21), nil)}},
			[]string{"away", "observed o21"}},
		"it is not there": {"110", LeaseCheck{false, 300},
			[]step{{"stream", watching(end("130"), nil)}},
			[]string{"away", "listing", "synced 130"}},
		"the type is in another etcd": {"90", LeaseCheck{true, 300},
			[]step{{"stream", watching(end("130"), nil)}},
			[]string{"away", "listing", "synced 130"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRecordingSink()
			broken := make(chan struct{})
			first := func(t *testing.T, w http.ResponseWriter, r *http.Request) {
				watching(obj(1), end(test.list), obj(20))(t, w, r)
				select {
				case <-broken:
				case <-t.Context().Done():
				}
			}
			steps := append([]step{{"stream", first}}, test.steps...)
			c := serve(t, &script{t: t, steps: steps}, Options{})
			witness := &seer{make(chan LeaseCheck, 1)}
			c.Trust(witness)
			c.Wrote(100, time.Now(), false, false)
			start(t, c.Follow(anyType, nil, s.sink))
			s.expect(t, "listing", "observed o1", "synced "+test.list, "observed o20")
			c.Wrote(200, time.Now(), true, false)
			witness.sights <- test.sight
			c.continuity.mu.Lock()
			c.continuity.after = time.Nanosecond
			c.continuity.mu.Unlock()
			c.NotWritten()
			sure, changed := c.Sure()
			if sure {
				t.Error("sure while the API server is away")
			}
			close(broken)
			s.expect(t, append([]string{"listing", "observed o1", "synced " + test.list, "observed o20"}, test.want...)...)
			select {
			case <-changed:
			case <-time.After(10 * time.Second):
				t.Error("it is not sure again")
			}
		})
	}
}
