package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/show"
	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fake"
)

// plan asks what would go.
func (w *world) plan(q page.PlanRequest) (p page.Plan) {
	w.t.Helper()
	if status := w.ask(http.MethodPost, "/plan", q, &p); status != http.StatusOK {
		w.t.Fatalf("/plan %+v: status %d", q, status)
	}
	return p
}

// reclaim has a plan carried out, and returns the status, the steps, or the error.
func (w *world) reclaim(q page.PlanRequest, digest string) (status int, steps []page.ReclaimEvent, e page.Error) {
	w.t.Helper()
	body, err := json.Marshal(page.ReclaimRequest{PlanRequest: q, Digest: digest})
	if err != nil {
		w.t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/reclaim", bytes.NewReader(body))
	r.Header.Set(page.HeaderCaller, "jane")
	a := httptest.NewRecorder()
	w.agent.admin.handler().ServeHTTP(a, r)
	if a.Code != http.StatusOK {
		if err := json.Unmarshal(a.Body.Bytes(), &e); err != nil {
			w.t.Fatalf("%v: %s", err, a.Body)
		}
		return a.Code, nil, e
	}
	for d := json.NewDecoder(a.Body); d.More(); {
		var step page.ReclaimEvent
		if err := d.Decode(&step); err != nil {
			w.t.Fatal(err)
		}
		steps = append(steps, step)
	}
	return a.Code, steps, e
}

func ids(images []page.Image) (list []string) {
	for _, i := range images {
		list = append(list, i.ID)
	}
	return list
}

func (w *world) pause(seconds int64) (p page.Pause) {
	w.t.Helper()
	if status := w.ask(http.MethodPost, "/pause", page.PauseRequest{ForSeconds: seconds, Reason: "a look first"}, &p); status != http.StatusOK {
		w.t.Fatalf("/pause: status %d", status)
	}
	return p
}

// What was planned goes, in that order, and no more; thresholds have no part in it.
func TestReclaimFollowsThePlan(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.five()
		w.fill(60)
		to := 50
		for _, q := range []page.PlanRequest{{FreeBytes: 41 * mib}, {ToPercent: &to}} {
			p := w.plan(q)
			want := ids(p.Remove)
			before := w.rt.Disk().AvailableBytes
			status, steps, _ := w.reclaim(q, p.Digest)
			if status != http.StatusOK || len(want) == 0 {
				t.Fatalf("status %d, %d images planned", status, len(want))
			}
			var removed []string
			freed := uint64(0)
			for _, s := range steps {
				if s.Event == "removed" {
					removed, freed = append(removed, s.ID), freed+s.FreedBytes
				}
			}
			if !slices.Equal(removed, want) {
				t.Errorf("%+v: removed %q, planned %q", q, removed, want)
			}
			last := steps[len(steps)-1]
			if got := w.rt.Disk().AvailableBytes - before; got != p.Frees.Bytes || freed != got || last.FreedBytes != got {
				t.Errorf("%+v: freed %d, reported %d and %d, planned %d", q, got, freed, last.FreedBytes, p.Frees.Bytes)
			}
			if steps[0].Event != "begun" || steps[0].Of != len(want) || last.Event != "ended" || last.Result != "done" || last.Removed != len(want) {
				t.Errorf("steps %+v", steps)
			}
			w.pass(time.Hour)
		}
		w.wantRemoved(all[:3]...) // two for 41 MiB, then one for what is left of 50 %
		w.wantLogged(2, "reclaim run begun", "reason=asked", "by=jane")
		if n := w.metric("ebb_node_reclaim_runs_total", "done"); n != 2 {
			t.Errorf("%v runs counted", n)
		}
	})
}

// A plan that is not the one that was shown is shown, and not carried out.
func TestReclaimOfAnotherPlan(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.fill(60)
		q := page.PlanRequest{FreeBytes: 30 * mib}
		p := w.plan(q)
		w.use("i0")
		status, _, e := w.reclaim(q, p.Digest)
		if status != http.StatusConflict || e.Plan == nil || e.Plan.Digest == p.Digest {
			t.Fatalf("status %d, %+v", status, e)
		}
		w.wantRemoved()
		if status, _, _ := w.reclaim(q, e.Plan.Digest); status != http.StatusOK {
			t.Errorf("the plan that was shown then: status %d", status)
		}
		w.wantRemoved(e.Plan.Remove[0].ID)
	})
}

// Who asks for more than there is learns how much there is.
func TestReclaimOfMoreThanThereIs(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.five()
		w.rt.Run(fake.CRINamespace, "c", "i4")
		w.fill(60)
		q := page.PlanRequest{FreeBytes: 500 * mib}
		p := w.plan(q)
		if p.Most.Bytes != 160*mib || p.Hold == nil || p.Frees != p.Most || len(p.Remove) != 4 {
			t.Fatalf("plan %+v", p)
		}
		_, steps, _ := w.reclaim(q, p.Digest)
		if last := steps[len(steps)-1]; last.Result != "short" || last.FreedBytes != 160*mib {
			t.Errorf("ended with %+v", last)
		}
		w.wantRemoved(all[:4]...)
	})
}

// Who asks for inodes asks for no bytes, also when others write meanwhile.
func TestReclaimOfOneResource(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.fill(60)
		q := page.PlanRequest{FreeInodes: 15}
		p := w.plan(q)
		if len(p.Remove) != 2 {
			t.Fatalf("plan %+v", p)
		}
		w.rt.SetFaults(fake.Faults{During: func(string) { w.rt.SetDisk(size, size*60/100-140*mib, 100100) }})
		_, steps, _ := w.reclaim(q, p.Digest)
		if last := steps[len(steps)-1]; last.Result != "done" || last.Removed != 0 {
			t.Errorf("ended with %+v", last)
		}
		w.pass(time.Hour)
		w.wantRemoved()
	})
}

// No image goes that was not shown, also when others have written meanwhile; and what is asked for is
// no threshold: reclaim does not go on to the low one.
func TestReclaimOfNoMoreThanWasShown(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Images.LowThresholdPercent = 60
		all := w.five()
		w.fill(70)
		q := page.PlanRequest{FreeBytes: 70 * mib}
		withdrawn := 0
		w.rt.SetFaults(fake.Faults{During: func(string) {
			if withdrawn++; withdrawn == 2 {
				w.rt.SetDisk(size, size*70/100-120*mib, 100000) // 40 MiB more of others
			}
		}})
		_, steps, _ := w.reclaim(q, w.plan(q).Digest)
		if last := steps[len(steps)-1]; last.Result != "short" || last.Removed != 2 {
			t.Errorf("ended with %+v", last)
		}
		w.pass(time.Hour)
		w.wantRemoved(all[0], all[1])
	})
}

// More than any disk has is no little: numbers do not begin anew.
func TestReclaimOfTheLargestNumber(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.fill(60)
		for _, q := range []page.PlanRequest{{FreeBytes: math.MaxUint64}, {FreeInodes: math.MaxUint64}} {
			p := w.plan(q)
			if p.Hold == nil || len(p.Remove) > 0 {
				t.Fatalf("plan %+v", p)
			}
			if _, steps, _ := w.reclaim(q, p.Digest); steps[len(steps)-1].Result != "short" {
				t.Errorf("steps %+v", steps)
			}
		}
		w.wantRemoved()
	})
}

// Who goes away ends the run: what is not gone gets its names back, and the thresholds count again.
func TestReclaimOfWhoGoesAway(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.five()
		w.fill(60)
		q := page.PlanRequest{FreeBytes: 70 * mib}
		body, err := json.Marshal(page.ReclaimRequest{PlanRequest: q, Digest: w.plan(q).Digest})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		withdrawn := 0
		w.rt.SetFaults(fake.Faults{During: func(string) {
			if withdrawn++; withdrawn == 2 {
				cancel()
				time.Sleep(time.Second)
			}
		}})
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/reclaim", bytes.NewReader(body))
		w.agent.admin.handler().ServeHTTP(httptest.NewRecorder(), r)
		w.pass(time.Minute)
		w.rt.SetFaults(fake.Faults{})
		w.wantRemoved(all[0])
		if n := w.metric("ebb_node_reclaim_runs_total", "incomplete"); n != 1 {
			t.Errorf("%v runs counted as incomplete", n)
		}
		w.fill(81)
		w.wantRemoved(all[0], all[1], all[2])
	})
}

// Only what was shown goes, whatever others write meanwhile; a pause ends it after the image in hand.
func TestReclaimBesideOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		all := w.five()
		w.fill(60)
		q := page.PlanRequest{FreeBytes: 70 * mib}
		p := w.plan(q)
		withdrawn, second, over := 0, make(chan struct{}), make(chan struct{})
		w.rt.SetFaults(fake.Faults{During: func(string) {
			if withdrawn++; withdrawn == 2 {
				close(second)
				<-over
			}
		}})
		done := make(chan []page.ReclaimEvent, 1)
		go func() {
			_, steps, _ := w.reclaim(q, p.Digest)
			done <- steps
		}()
		<-second
		if status, _, e := w.reclaim(q, p.Digest); status != http.StatusConflict || !strings.Contains(e.Error, "a run that jane asked for") {
			t.Errorf("a second one: status %d, %+v", status, e)
		}
		if s := w.status(); !s.Running {
			t.Error("nothing seems to be going on")
		}
		if n := len(w.explain().Images); n != 4 {
			t.Errorf("%d images are shown meanwhile", n)
		}
		w.pause(60)
		close(over)
		steps := <-done
		if last := steps[len(steps)-1]; last.Result != "paused" || last.Removed != 1 {
			t.Errorf("ended with %+v", last)
		}
		w.pass(time.Second)
		w.wantRemoved(all[0])
	})
}

// TestReclaimIsCapped: the hourly cap holds for a run that somebody asks for, too.
func TestReclaimIsCapped(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Images.MaxRemovalsPerHour = "1"
		all := w.five()
		w.fill(60)
		q := page.PlanRequest{FreeBytes: 70 * mib}
		p := w.plan(q)
		if len(p.Remove) < 2 {
			t.Fatalf("the plan is %q", ids(p.Remove))
		}
		status, steps, e := w.reclaim(q, p.Digest)
		if last := steps[len(steps)-1]; status != http.StatusOK || last.Result != "capped" || last.Removed != 1 {
			t.Errorf("status %d, %+v, ended with %+v", status, e, last)
		}
		w.wantRemoved(all[0])
	})
}

// TestReclaimWhileTheAgentStops: the last event has the reason why the run ended.
func TestReclaimWhileTheAgentStops(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.fill(60)
		q := page.PlanRequest{FreeBytes: 70 * mib}
		p := w.plan(q)
		withdrawn, down := 0, make(chan struct{})
		w.rt.SetFaults(fake.Faults{During: func(string) {
			if withdrawn++; withdrawn == 2 {
				go func() {
					defer close(down)
					w.down()
				}()
				time.Sleep(time.Second)
			}
		}})
		_, steps, _ := w.reclaim(q, p.Digest)
		<-down
		if last := steps[len(steps)-1]; last.Result != "incomplete" || last.Reason != "the agent is stopping" {
			t.Errorf("ended with %+v", last)
		}
	})
}

// The filesystem of the images goes away during a run: the run ends with an error, the agent goes on.
func TestReclaimOfADiskThatGoes(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.five()
		w.fill(60)
		q := page.PlanRequest{FreeBytes: 70 * mib}
		p := w.plan(q)
		w.logs.on = func(line string) {
			if strings.Contains(line, "image removed") && len(w.rt.Removed()) == len(p.Remove) {
				w.disk.mount("/", 0, "", nil)
			}
		}
		status, steps, e := w.reclaim(q, p.Digest)
		if last := steps[len(steps)-1]; status != http.StatusOK || last.Result != "incomplete" || last.Removed != len(p.Remove) || last.Reason == "" {
			t.Errorf("status %d, %+v, ended with %+v", status, e, last)
		}
		w.wantRemoved(all[:len(p.Remove)]...)
		w.disk.unmount("/")
		w.pass(time.Minute)
		w.fill(81)
		w.pass(time.Minute)
		if n := len(w.rt.Removed()); n == len(p.Remove) {
			t.Errorf("%d images went: the disk is there again, and over its threshold", n)
		}
	})
}

// What makes no sense is refused, with a word on what would.
func TestReclaimRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		w.five()
		w.fill(60)
		percent := func(p int) *int { return &p }
		for want, q := range map[string]page.PlanRequest{
			"give an amount to free":       {},
			"101 %: want 0 to 100":         {ToPercent: percent(101)},
			"-1 %: want 0 to 100":          {ToInodesPercent: percent(-1)},
			"an amount to free or a perc":  {FreeBytes: 1, ToPercent: percent(1)},
			"a configuration or an amount": {FreeBytes: 1, Config: "mode: enforce"},
		} {
			if status, _, e := w.reclaim(q, ""); status != http.StatusBadRequest || !strings.Contains(e.Error, want) {
				t.Errorf("%+v: status %d, %q, want %q", q, status, e.Error, want)
			}
		}
		var e page.Error
		if status := w.ask(http.MethodPost, "/plan", map[string]any{"freBytes": 1}, &e); status != http.StatusBadRequest || !strings.Contains(e.Error, "freBytes") {
			t.Errorf("status %d, %q", status, e.Error)
		}
		if status := w.ask(http.MethodPost, "/plan", page.PlanRequest{Config: "imges: {}"}, &e); status != http.StatusBadRequest || !strings.Contains(e.Error, "imges") {
			t.Errorf("status %d, %q", status, e.Error)
		}
		w.pause(60)
		if status, _, e := w.reclaim(page.PlanRequest{FreeBytes: 1}, ""); status != http.StatusConflict || !strings.Contains(e.Error, "by jane: resume first") {
			t.Errorf("paused: status %d, %q", status, e.Error)
		}
		w.down()
		w.cfg.Mode = config.ModeObserve
		w.up()
		if status, _, e := w.reclaim(page.PlanRequest{FreeBytes: 1}, ""); status != http.StatusConflict || !strings.Contains(e.Error, "mode observe") {
			t.Errorf("observe: status %d, %q", status, e.Error)
		}
		w.wantRemoved()
	})
}

// A plan with another configuration is a dry run of the change.
func TestPlanWithAnotherConfiguration(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.five()
		w.fill(60)
		if p := w.plan(page.PlanRequest{}); len(p.Remove) != 0 || p.Most.Bytes != 200*mib {
			t.Errorf("now %+v", p)
		}
		p := w.plan(page.PlanRequest{Config: "images: {imageGCHighThresholdPercent: 55, imageGCLowThresholdPercent: 50, imageMinimumGCAge: 0s, keep: [i0]}"})
		if got := ids(p.Remove); !slices.Equal(got, all[1:4]) {
			t.Errorf("with lower thresholds and a rule %q would go, want %q", got, all[1:4])
		}
		w.pass(time.Hour)
		w.wantRemoved()
	})
}

// While it is paused nothing goes, also after a restart; then it goes on by itself, or at once when
// somebody resumes it.
func TestPause(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.five()
		w.deadPod("a")
		p := w.pause(3600)
		if p.By != "jane" || p.NotSaved != "" || !p.Until.Equal(p.Since.Add(time.Hour)) {
			t.Errorf("pause %+v", p)
		}
		w.fill(81)
		w.pass(10 * time.Minute)
		w.down()
		w.up()
		w.pass(49 * time.Minute)
		w.wantRemoved()
		w.wantDid()
		if s := w.status(); s.Paused == nil || s.Paused.By != "jane" || s.Paused.Reason != "a look first" {
			t.Errorf("status %+v", s.Paused)
		}
		if n := w.metric("ebb_node_paused"); n != 1 {
			t.Errorf("ebb_node_paused is %v", n)
		}
		w.wantLogged(1, "still paused")
		w.pass(2 * time.Minute)
		w.wantRemoved(all[0], all[1])
		if n := w.metric("ebb_node_paused"); n != 0 {
			t.Errorf("ebb_node_paused is %v", n)
		}

		w.pause(3600)
		w.fill(81)
		var r page.Resume
		if w.ask(http.MethodPost, "/resume", nil, &r); !r.WasPaused {
			t.Error("it was not paused")
		}
		synctest.Wait()
		w.wantRemoved(all[0], all[1], all[2], all[3])
		if w.ask(http.MethodPost, "/resume", nil, &r); r.WasPaused {
			t.Error("it was still paused")
		}
		var e page.Error
		for _, seconds := range []int64{0, -1, 31 * 24 * 3600} {
			if status := w.ask(http.MethodPost, "/pause", page.PauseRequest{ForSeconds: seconds}, &e); status != http.StatusBadRequest {
				t.Errorf("pause for %d s: status %d", seconds, status)
			}
		}
	})
}

// While the pause file exists nothing is removed: also after a restart, and when another pause ends.
// It needs no answer of this agent, and ebb resume does not end it.
func TestPauseFile(t *testing.T) {
	inWorld(t, func(w *world) {
		posted := &postedEvents{}
		w.events = posted
		w.cfg.PauseFile = filepath.Join(w.cfg.State.Directory, "pause")
		write := func() {
			if err := os.WriteFile(w.cfg.PauseFile, []byte("a bad\nrelease\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		all := w.five()
		write()
		w.deadPod("a")
		w.fill(81)
		w.pass(10 * time.Minute)
		w.pause(60)
		w.pass(2 * time.Minute)
		w.down()
		w.up()
		w.pass(time.Minute)
		w.wantRemoved()
		w.wantDid()
		want := page.Pause{By: "the file " + w.cfg.PauseFile, Reason: "a bad release"}
		if s := w.status(); s.Paused == nil || *s.Paused != want {
			t.Errorf("status %+v, want %+v", s.Paused, want)
		}
		if n := w.metric("ebb_node_paused"); n != 1 {
			t.Errorf("ebb_node_paused is %v", n)
		}
		var e page.Error
		if status := w.ask(http.MethodPost, "/resume", nil, &e); status != http.StatusConflict || !strings.Contains(e.Error, "still paused by the file") {
			t.Errorf("resume: status %d, %+v", status, e)
		}
		if status, _, e := w.reclaim(page.PlanRequest{FreeBytes: 1}, ""); status != http.StatusConflict || !strings.Contains(e.Error, "paused as long as it exists by the file") {
			t.Errorf("reclaim: status %d, %+v", status, e)
		}
		posted.want(t, "EbbPaused EbbPaused EbbPaused", "as long as it exists", `for "a bad release"`)

		if err := os.Remove(w.cfg.PauseFile); err != nil {
			t.Fatal(err)
		}
		w.pass(6 * time.Minute) // as long as reads of everything are apart
		w.wantRemoved(all[0], all[1])
		if n := w.metric("ebb_node_paused"); n != 0 {
			t.Errorf("ebb_node_paused is %v", n)
		}
		posted.want(t, "EbbResumed", "the pause file is gone")

		write()
		w.fill(81)
		w.wantRemoved(all[0], all[1])
		if err := os.Remove(w.cfg.PauseFile); err != nil {
			t.Fatal(err)
		}
		if status := w.ask(http.MethodPost, "/resume", nil, nil); status != http.StatusOK {
			t.Errorf("resume: status %d", status)
		}
		w.pass(6 * time.Minute)
		w.wantRemoved(all[0], all[1], all[2], all[3])
	})
}

// A pause ends a batch of dead containers after the one in hand.
func TestPauseDuringABatch(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Containers.MaxRemovalsPerSecond = 1
		for n := range 4 {
			c := w.exited(fmt.Sprint("c", n), "web", uint32(n))
			c.Created = c.Created.Add(time.Duration(n) * time.Minute)
			w.rt.AddContainer(c)
		}
		w.rt.AddSandbox(container.Sandbox{ID: "s-web", Pod: pod("web")})
		w.up()
		w.pass(500 * time.Millisecond)
		w.pause(3600)
		w.pass(time.Minute)
		w.wantDid("c0")
		w.ask(http.MethodPost, "/resume", nil, nil)
		w.pass(time.Minute)
		w.wantDid("c0", "c1", "c2")
	})
}

// Why explains every rule. A name that matches no image, or several, is reported as such.
func TestWhy(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.five()
		w.rt.Run(fake.CRINamespace, "c", "i0")
		w.pass(time.Minute)
		var why page.Why
		w.get("/why?image="+all[0], &why)
		n := slices.IndexFunc(why.Rules, func(r page.Rule) bool { return r.State == "holds" })
		if n < 0 || why.Rules[n].Reason != "in_use" || why.Image.Reason != "in_use" || why.Place != 0 || why.Image.Own.Bytes == 0 {
			t.Errorf("why %+v", why)
		}
		w.get("/why?image="+all[1], &why)
		if why.Image.Reason != "not_needed" || why.Place != 1 || why.Of != 4 || why.InTurn.Bytes != 40*mib {
			t.Errorf("why %+v", why)
		}
		var e page.Error
		for path, want := range map[string]int{"/why?image=nothing": http.StatusNotFound, "/why": http.StatusBadRequest, "/nothing": http.StatusNotFound} {
			if path == "/nothing" {
				if status := w.ask(http.MethodGet, path, nil, nil); status != want {
					t.Errorf("%s: status %d", path, status)
				}
			} else if status := w.ask(http.MethodGet, path, nil, &e); status != want || e.Error == "" {
				t.Errorf("%s: status %d, %+v", path, status, e)
			}
		}
	})
}

// Before the runtime has answered, pages show what is known, and for the rest the reason why it is not.
func TestPagesWithoutARuntime(t *testing.T) {
	inWorld(t, func(w *world) {
		w.dial = func(ctx context.Context) (Runtime, error) { <-ctx.Done(); return nil, ctx.Err() }
		w.up()
		if s := w.status(); s.Ready || s.NotReady == "" || s.Looked != nil {
			t.Errorf("status %+v", s)
		}
		var e page.Error
		if status := w.ask(http.MethodGet, "/images", nil, &e); status != http.StatusServiceUnavailable || !strings.Contains(e.Error, "has not answered yet") {
			t.Errorf("/images: status %d, %+v", status, e)
		}
	})
}

// Names of who asks are cut, and of one line.
func TestCaller(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set(page.HeaderCaller, "a\tb \xff"+strings.Repeat("ä", 300))
	if got := caller(r); len(got) > longestWords || !strings.HasPrefix(got, "a b ?ä") || strings.ToValidUTF8(got, "!") != got {
		t.Errorf("%q", got)
	}
}

// A page is made without the lock, of what a run that goes on meanwhile does not change.
func TestPageOutlivesARun(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.five()
		w.fill(60)
		var v show.View
		var plan image.Plan
		w.agent.monitor.Do(func() {
			v = w.agent.view(w.agent.looks.shown.inv, w.agent.looks.shown.asked, nil)
			_, plan = w.agent.reclaim.Target()
		})
		q := page.PlanRequest{FreeBytes: 70 * mib}
		if status, _, _ := w.reclaim(q, w.plan(q).Digest); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		w.wantRemoved(all[:2]...)
		for _, i := range v.Images(plan).Images {
			if !slices.Contains(all, i.ID) || i.Own.Bytes != 40*mib || len(i.References) != 1 || i.LastUsed == nil {
				t.Errorf("shown as %+v", i)
			}
		}
		if n := len(v.Images(plan).Images); n != len(all) {
			t.Errorf("%d of %d images are shown", n, len(all))
		}
	})
}

// A page never has a new list of the images beside the plan of the list before. While the disk is read
// for the new plan, requests wait for it.
func TestImagesComeWithTheirPlan(t *testing.T) {
	inWorld(t, func(w *world) {
		w.disk.kind = "btrfs" // whose readings take a commit: the agent waits for it without the lock
		w.add("a", 10)
		w.up()
		shown := make(chan int, 1)
		var once sync.Once
		w.disk.during = func() {
			once.Do(func() {
				go func() { shown <- len(w.explain().Images) }()
				time.Sleep(time.Second)
			})
		}
		w.add("b", 10)
		w.others(85)
		w.pass(time.Minute)
		if n := <-shown; n != 2 {
			t.Errorf("%d images are shown, not 2", n)
		}
	})
}

// A client that reads slowly misses steps of a long run, but not its end.
func TestSlowClientHearsTheEnd(t *testing.T) {
	e := newErrand(t.Context(), page.ReclaimRequest{}, "jane")
	for range eventsKept + 10 {
		e.Report(page.ReclaimEvent{Event: "removed"})
	}
	e.Report(page.ReclaimEvent{Event: "ended"})
	close(e.events)
	var last page.ReclaimEvent
	for last = range e.events {
	}
	if last.Event != "ended" {
		t.Errorf("the last event is %q", last.Event)
	}
}

// While the runtime lists the images, the status waits for the list. If that takes too long, the status
// reports that the images are not known, and not that there are none.
func TestStatusWhileListing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add("a", 10)
		w.up()
		for takes, known := range map[time.Duration]bool{time.Second: true, time.Minute: false} {
			before := w.status().Images.Total
			w.rt.SetFaults(fake.Faults{Delay: takes})
			w.add(fmt.Sprintf("b%d", takes), 10)
			for listing := false; !listing; w.pass(100 * time.Millisecond) {
				w.agent.monitor.Do(func() { listing = w.agent.looks.shown.inv == nil })
			}
			if s := w.status(); (s.ImagesUnknown == "") != known || known && s.Images.Total != before+1 || !known && s.Images.Total != 0 {
				t.Errorf("a list that takes %s: %d images, unknown %q", takes, s.Images.Total, s.ImagesUnknown)
			}
			w.rt.SetFaults(fake.Faults{})
			w.pass(10 * time.Minute)
		}
	})
}
