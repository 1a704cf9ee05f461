package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// booked is what the running agent has booked, oldest first.
func (w *world) booked() []page.HistoryEntry {
	w.t.Helper()
	synctest.Wait()
	p, err := w.agent.history.Read(1000, "")
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(p.Entries)
	return p.Entries
}

func (w *world) wantBooked(want ...string) {
	w.t.Helper()
	var got []string
	for _, e := range w.booked() {
		got = append(got, cmp.Or(e.ID, e.Kind)+" "+e.Outcome)
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("the history is %q, want %q", got, want)
	}
}

// entryOf is the only entry of that thing.
func (w *world) entryOf(id string) page.HistoryEntry {
	w.t.Helper()
	list := slices.DeleteFunc(w.booked(), func(e page.HistoryEntry) bool { return cmp.Or(e.ID, e.Kind) != id })
	if len(list) != 1 {
		w.t.Fatalf("%d entries of %s: %+v", len(list), id, list)
	}
	return list[0]
}

func TestHistoryOfARun(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		used := *w.image(ids[1]).LastUsed
		w.fill(81)
		w.wantRemoved(ids[0], ids[1])
		w.wantBooked(ids[0]+" removed", ids[1]+" removed")
		e := w.entryOf(ids[1])
		if e.Kind != page.KindImage || e.Rule != "threshold" || e.Detail == "" || !slices.Equal(e.Names, []string{"i1"}) ||
			e.LastUsed == nil || !e.LastUsed.Equal(used) || e.ComputedBytes != 40*mib || e.FreedBytes == nil || *e.FreedBytes != 40*mib ||
			e.FreedInodes == nil || e.Ended == nil || e.Time.IsZero() || e.Wall.IsZero() || e.By != "" || e.Error != "" {
			t.Errorf("%+v", e)
		}
		w.down()
		w.up()
		w.wantBooked(ids[0]+" removed", ids[1]+" removed")
	})
}

// What turns out to be needed, before its names are away or after, is a refusal with its reason.
func TestHistoryOfWhatStays(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		const late = "docker.io/library/late:latest"
		ids := append([]string{w.add(late, 40)}, w.five()...)
		w.rt.SetFaults(fake.Faults{During: func(id string) {
			if id == ids[0] {
				w.pods.set(nil, kube.Pod{UID: "1", Namespace: "default", Name: "late", Images: []string{late}})
			}
		}})
		w.fill(81)
		w.pass(time.Second)
		if e := w.entryOf(ids[0]); e.Outcome != page.OutcomePutBack || e.Reason == "threshold" || e.Rule != "threshold" || e.FreedBytes != nil {
			t.Errorf("%+v", e)
		}
		w.rt.SetFaults(fake.Faults{Withdraw: inventory.ErrChanged})
		w.fill(81)
		w.pass(time.Minute)
		if e := w.entryOf(ids[3]); e.Outcome != page.OutcomeRefused || e.Reason != "it has changed since the plan was made" {
			t.Errorf("%+v", e)
		}
	})
}

func TestHistoryOfFailures(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.rt.SetFaults(fake.Faults{Remove: map[string]error{ids[0]: errors.New("no such device")}})
		w.fill(81)
		w.pass(10 * time.Minute) // it is tried several times
		if e := w.entryOf(ids[0]); e.Outcome != page.OutcomeFailed || e.Reason != "removal failed" || e.Error == "" {
			t.Errorf("%+v", e)
		}
		w.wantBooked(ids[0]+" failed", ids[1]+" removed", ids[2]+" removed")
	})
}

func TestHistoryOfHoldAndCap(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Images.MaxRemovalsPerHour = "1"
		ids := w.five()
		w.fill(81)
		w.pass(time.Minute)
		w.wantBooked(ids[0]+" removed", "cap refused")
		w.fill(99)
		w.pass(5 * time.Hour)
		w.fill(10)
		w.pass(time.Hour)
		list := w.booked()
		outcomes := map[string][]string{}
		for _, e := range list {
			outcomes[e.Kind] = append(outcomes[e.Kind], e.Outcome)
		}
		if caps := outcomes[page.KindCap]; len(caps) < 2 || caps[0] != page.OutcomeRefused || caps[1] != page.OutcomeEnded {
			t.Errorf("caps: %q", caps)
		}
		if holds := outcomes[page.KindHold]; !slices.Equal(holds, []string{page.OutcomeRefused, page.OutcomeEnded}) {
			t.Errorf("holds: %q", holds)
		}
		at := slices.IndexFunc(list, func(e page.HistoryEntry) bool { return e.Kind == page.KindHold })
		if e := list[at]; e.Reason != "the hold begins: bytes" || e.Detail == "" || e.ComputedBytes == 0 || len(e.Names) != 1 {
			t.Errorf("%+v", e)
		}
	})
}

func TestHistoryOfDeadContainers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{list: []kube.Pod{{UID: "uid-a"}}}
		w.cfg.Containers.Logs = true
		w.cfg.Filesystems.PodLogs.Path = filepath.Join(w.cfg.State.Directory, "logs")
		w.cfg.Containers.LogLinks = ""
		logs := filepath.Join(w.cfg.Filesystems.PodLogs.Path, "default_a_uid-a")
		if err := os.MkdirAll(logs, 0o700); err != nil {
			t.Fatal(err)
		}
		w.deadPod("a")
		w.up()
		w.wantBooked()
		w.pods.set(nil)
		w.pass(time.Hour)
		w.wantBooked("c-a removed", "s-a removed")
		if e := w.entryOf("c-a"); e.Kind != page.KindContainer || e.Rule != "pod_gone" || !slices.Equal(e.Names, []string{"default/a/app"}) {
			t.Errorf("%+v", e)
		}
		if e := w.entryOf("s-a"); e.Kind != page.KindSandbox || !slices.Equal(e.Names, []string{"default/a"}) {
			t.Errorf("%+v", e)
		}
	})
}

// crashing calls a function whenever an image has just gone, before anything was reported.
type crashing struct {
	*fake.Runtime
	gone func(id string)
	lost error // the answer, in place of none
	mend error
}

type crashingWithdrawal struct {
	inventory.Withdrawal
	crashing
	id string
}

func (c crashing) Withdraw(ctx context.Context, i inventory.Image) (inventory.Withdrawal, error) {
	names, err := c.Runtime.Withdraw(ctx, i)
	if err != nil {
		return nil, err
	}
	return crashingWithdrawal{names, c, i.ID}, nil
}

func (c crashing) Mend(ctx context.Context) ([]string, error) {
	mended, err := c.Runtime.Mend(ctx)
	return mended, errors.Join(err, c.mend)
}

func (c crashing) Users(ctx context.Context, withdrawals ...inventory.Withdrawal) ([][]string, error) {
	for n, w := range withdrawals {
		withdrawals[n] = w.(crashingWithdrawal).Withdrawal
	}
	return c.Runtime.Users(ctx, withdrawals...)
}

func (c crashingWithdrawal) Complete(ctx context.Context, collect bool) error {
	err := c.Withdrawal.Complete(ctx, collect)
	if err == nil {
		c.gone(c.id)
		err = c.lost
	}
	return err
}

// A removal whose answer is lost counts as one all the same, once a list shows that the image is gone.
func TestAnswerIsLost(t *testing.T) {
	inWorld(t, func(w *world) {
		w.dial = func(context.Context) (Runtime, error) {
			return crashing{w.rt, func(string) {}, context.DeadlineExceeded, nil}, nil
		}
		w.cfg.Images.MaxRemovalsPerHour = "2"
		ids := w.five()
		w.fill(95)
		w.pass(10 * time.Minute)
		w.wantRemoved(ids[0], ids[1])
		if n := w.metric("ebb_node_images_removed_total", "threshold"); n != 2 {
			t.Errorf("%v removals are counted", n)
		}
		for _, id := range ids[:2] {
			if e := w.entryOf(id); e.Outcome != page.OutcomeRemoved {
				t.Errorf("%+v", e)
			}
		}
		w.wantLogged(2, "image removed", "freed=\"what it freed was not measured")
		w.add("i0", 40)
		w.pass(time.Minute)
		if n := w.metric("ebb_node_images_repulled_total"); n != 1 {
			t.Errorf("%v images are pulled again", n)
		}
	})
}

// While nobody knows whether it has happened, it counts for the hourly cap.
func TestAnswerIsLostAndNothingMends(t *testing.T) {
	inWorld(t, func(w *world) {
		w.dial = func(context.Context) (Runtime, error) {
			return crashing{w.rt, func(string) {}, context.DeadlineExceeded, errors.New("bolt: timeout")}, nil
		}
		w.cfg.Images.MaxRemovalsPerHour = "2"
		ids := w.five()
		w.fill(95)
		w.pass(50 * time.Minute)
		w.wantRemoved(ids[0], ids[1])
	})
}

// Killed the moment after any image has gone, the agent has an entry of all that have; the next one
// knows that they went.
func TestHistoryKnowsAllThatWent(t *testing.T) {
	inWorld(t, func(w *world) {
		var gone []string
		copies := make(map[string][]string) // which were gone, by directory
		w.dial = func(context.Context) (Runtime, error) {
			return crashing{Runtime: w.rt, gone: func(id string) {
				gone = append(gone, id)
				dir := filepath.Join(w.cfg.State.Directory, fmt.Sprint("crash", len(gone)))
				b, err := os.ReadFile(filepath.Join(w.cfg.State.Directory, state.File))
				if err := errors.Join(err, os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, state.File), b, 0o600)); err != nil {
					t.Error(err)
				}
				copies[dir] = slices.Clone(gone)
			}}, nil
		}
		for n := range 20 {
			w.add(fmt.Sprint("i", n), 20)
		}
		w.up()
		w.fill(95)
		w.pass(time.Minute)
		if len(gone) < 8 {
			t.Fatalf("%d images went: too few for groups", len(gone))
		}
		for dir, went := range copies {
			checkCrash(t, dir, went)
		}
		for _, e := range w.booked() {
			if e.FreedBytes == nil {
				t.Errorf("without a crash nobody knows what %s freed: %+v", e.ID, e)
			}
		}
	})
}

func checkCrash(t *testing.T, dir string, gone []string) {
	s, _, _, err := state.Open(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := history.New(prometheus.NewRegistry(), history.Options{Now: time.Now, Wall: time.Now, Conditions: condition.NewSet(slog.New(slog.DiscardHandler))})
	h.Attach(s.DB())
	h.Listed(func(id string) bool { return !slices.Contains(gone, id) }, page.KindImage)
	go h.Run(t.Context())
	h.Close()
	p, err := h.Read(1000, "")
	if err != nil {
		t.Fatal(err)
	}
	var removed []string
	for _, e := range slices.Backward(p.Entries) {
		switch e.Outcome {
		case page.OutcomeRemoved:
			removed = append(removed, e.ID)
		case page.OutcomePutBack:
		default:
			t.Errorf("%s is %s", e.ID, e.Outcome)
		}
	}
	if !slices.Equal(removed, gone) {
		t.Errorf("gone are %q, the history has %q", gone, removed)
	}
}

// TestWhyReadsTheWholeHistory: thousands of removed containers do not hide what happened to an image.
func TestWhyReadsTheWholeHistory(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.five()[4]
		removed := func(kind, id string) {
			for _, a := range w.agent.history.Begin(page.HistoryEntry{Kind: kind, ID: id}) {
				a.Removed(nil)
			}
		}
		removed(page.KindImage, id)
		for n := range 2500 {
			removed(page.KindContainer, fmt.Sprint("c", n))
			if n%100 == 0 {
				synctest.Wait() // until they are written
			}
		}
		synctest.Wait()
		var why page.Why
		w.get("/why?image="+id, &why)
		if len(why.History) != 1 || why.History[0].ID != id {
			t.Errorf("the image's history is %+v", why.History)
		}
	})
}
