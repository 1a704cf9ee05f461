package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/runtime/fake"
)

// days is a node on which the same happens whatever the agent does: an image that is needed and missing is
// pulled.
type days struct {
	*world
	random *rand.Rand
	others uint64            // MiB of what is not images
	ids    map[string]string // of images that were ever needed, by name
}

// grows does something that takes space, and the kernel sees it.
func (d *days) grows(act func()) {
	before := d.rt.Disk()
	act()
	d.kernel.wrote(fakeDev, before, d.rt.Disk())
}

// need runs a container of one of a dozen images, some of which share a layer.
func (d *days) need(n int) {
	name := fmt.Sprintf("image-%d", n)
	d.grows(func() {
		if there, err := d.rt.Check(context.Background(), d.ids[name]); err != nil {
			d.t.Fatal(err)
		} else if d.ids[name] == "" || there[d.ids[name]].ID == "" {
			base := fmt.Sprintf("base-%d", n%3)
			d.ids[name] = d.add(name, 20+3*uint64(n), fake.Layer{Name: base, Bytes: 8 * mib, Inodes: 5, BlobBytes: 4 * mib})
			synctest.Wait() // a look between two of these steps is one in both modes
		}
		d.rt.Run(fake.CRINamespace, "c-"+name, name)
	})
	d.pass(time.Minute)
	d.rt.Stop(fake.CRINamespace, "c-"+name)
	synctest.Wait()
	d.rt.Delete(fake.CRINamespace, "c-"+name)
	d.pass(time.Minute)
}

// write brings what is not images to so many MiB. All images together fit beside 510.
func (d *days) write(others uint64) {
	d.others = others
	d.grows(func() { d.rt.SetDisk(size, others*mib, 100000) })
	d.pass(10 * time.Second)
}

// live has the days pass, and returns the images that went, or would have, in this order.
func (d *days) live() (gone []string) {
	d.up()
	d.write(300)
	for range 120 {
		switch act := d.random.IntN(10); {
		case act < 5:
			d.need(d.random.IntN(12))
		case act < 8:
			d.write(350 + d.random.Uint64N(160))
		case act < 9:
			for range 30 {
				d.write(min(d.others+1, 510))
			}
		default:
			d.pass(time.Duration(d.random.IntN(300)) * time.Minute)
		}
	}
	d.pass(10 * time.Minute) // the agent may be about to look
	outcome := page.OutcomeRemoved
	if d.cfg.Mode == config.ModeObserve {
		d.wantRemoved()
		outcome = page.OutcomeWould
	}
	var h page.History
	d.get("/history?limit=1000", &h)
	for _, e := range slices.Backward(h.Entries) {
		if e.Outcome == outcome {
			gone = append(gone, e.Names[0])
		}
	}
	return gone
}

// What an agent that observes would remove is what one that enforces removes in the same days, with the same
// bytes but for those below, and as many of it are needed again.
func TestShadowIsWhatEnforcingDoes(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			configure := rand.New(rand.NewPCG(seed, 2))
			minimum, maximum := time.Duration(configure.IntN(2))*10*time.Minute, time.Duration(configure.IntN(2))*5*time.Hour
			low := []int{75, 55}[configure.IntN(2)]
			byAge := []int{100, 10}[configure.IntN(2)]
			var gone [2][]string
			var counted [2][3]float64
			for n, mode := range []config.Mode{config.ModeEnforce, config.ModeObserve} {
				inWorld(t, func(w *world) {
					w.cfg.Mode, w.cfg.ReconcileInterval = mode, config.Duration(24*time.Hour) // when it comes is random
					w.cfg.Images.MinimumAge, w.cfg.Images.MaximumAge = config.Duration(minimum), config.Duration(maximum)
					w.cfg.Images.LowThresholdPercent = low
					w.cfg.Images.AgeRemovalsPerHourPercent = byAge
					d := &days{world: w, random: rand.New(rand.NewPCG(seed, 1)), ids: map[string]string{}}
					gone[n] = d.live()
					if mode == config.ModeEnforce {
						counted[n] = [3]float64{w.metric("ebb_node_images_removed_total"), w.metric("ebb_node_image_freed_bytes_total"), w.metric("ebb_node_images_repulled_total")}
						return
					}
					o := w.status().Observed
					counted[n] = [3]float64{float64(o.Ebb.Images), float64(o.Ebb.Freed.Bytes), float64(o.Ebb.PulledAgain)}
					for m, name := range []string{"removed_total", "freed_bytes_total", "repulled_total"} {
						if got := w.metric("ebb_node_observed_images_"+name, "ebb"); got != counted[n][m] {
							t.Errorf("%s is %v, the status has %v", name, got, counted[n][m])
						}
					}
					if o.Others != (page.ObservedBy{AboveSeconds: o.Others.AboveSeconds}) {
						t.Errorf("others have removed %+v", o.Others)
					}
				})
			}
			if diff := cmp.Diff(gone[0], gone[1]); diff != "" {
				t.Errorf("images, -enforcing +observing:\n%s", diff)
			}
			// What is measured is at most what was computed, and that of a layer which two images of a group share counts for the
			// one that was planned to go last: enforcing can count less.
			enforced, observed := counted[0], counted[1]
			if enforced[0] != observed[0] || enforced[2] != observed[2] || enforced[1] > observed[1] || enforced[1] < 0.95*observed[1] {
				t.Errorf("images, bytes and pulls: enforcing %v, observing %v", enforced, observed)
			}
			if len(gone[0]) == 0 {
				t.Error("nothing went")
			}
		})
	}
}

// What others remove is counted beside, with its bytes, and whether it comes back; a restart forgets nothing.
func TestShadowCountsOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Mode = config.ModeObserve
		shared := fake.Layer{Name: "base", Bytes: 8 * mib, Inodes: 5, BlobBytes: 4 * mib}
		w.up()
		for _, name := range []string{"a", "b", "c", "d"} {
			w.add(name, 50, shared)
			w.use(name)
		}
		w.fill(85) // of images 212 MiB: ebb would have removed a and b
		w.pass(time.Minute)
		w.rt.Untag(fake.CRINamespace, "b")
		w.rt.Untag(fake.CRINamespace, "c")
		w.rt.Untag(fake.CRINamespace, "d")
		w.pass(time.Minute)
		w.wantObserved("three are gone", page.Observed{
			Ebb:    page.ObservedBy{Images: 2, Freed: page.Size{Bytes: 100 * mib, Inodes: 22}},
			Others: page.ObservedBy{Images: 3, Freed: page.Size{Bytes: 150 * mib, Inodes: 33}},
		})
		w.down()
		w.rt.Untag(fake.CRINamespace, "a")
		w.up()
		w.wantObserved("one went while the agent was away, with bytes that nobody knows", page.Observed{
			Ebb:    page.ObservedBy{Images: 2, Freed: page.Size{Bytes: 100 * mib, Inodes: 22}},
			Others: page.ObservedBy{Images: 4, Freed: page.Size{Bytes: 150 * mib, Inodes: 33}},
		})
		w.add("b", 50, shared)
		w.pass(time.Minute)
		w.wantObserved("one is pulled again", page.Observed{
			Ebb:    page.ObservedBy{Images: 2, Freed: page.Size{Bytes: 100 * mib, Inodes: 22}, PulledAgain: 1, PulledBytes: 29 * mib},
			Others: page.ObservedBy{Images: 4, Freed: page.Size{Bytes: 150 * mib, Inodes: 33}, PulledAgain: 1, PulledBytes: 29 * mib},
		})
		w.pass(25 * time.Hour)
		w.add("a", 50, shared)
		w.pass(time.Minute)
		w.wantObserved("one is pulled a day later", page.Observed{
			Ebb:    page.ObservedBy{Images: 2, Freed: page.Size{Bytes: 100 * mib, Inodes: 22}, PulledAgain: 1, PulledBytes: 29 * mib},
			Others: page.ObservedBy{Images: 4, Freed: page.Size{Bytes: 150 * mib, Inodes: 33}, PulledAgain: 1, PulledBytes: 29 * mib},
		})
		var h page.History
		w.get("/history", &h)
		if !h.Time.Equal(w.agent.now()) {
			t.Errorf("the history is of %s, not of %s", h.Time, w.agent.now())
		}
		var outcomes []string
		for _, e := range slices.Backward(h.Entries) {
			if e.Kind == page.KindImage {
				outcomes = append(outcomes, e.Outcome)
			}
		}
		want := []string{page.OutcomeWould, page.OutcomeWould, page.OutcomeOthers, page.OutcomeOthers, page.OutcomeOthers, page.OutcomeOthers}
		if diff := cmp.Diff(want, outcomes); diff != "" {
			t.Errorf("the history, -want +got:\n%s", diff)
		}
	})
}

// An image that is needed again while the agent is paused counts by the time of its use, however long the pause
// is. Nothing more would be removed meanwhile.
func TestShadowInAPause(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Mode = config.ModeObserve
		w.up()
		for _, name := range []string{"a", "b", "c", "d"} {
			w.add(name, 50)
			w.use(name)
		}
		w.fill(85)
		w.pass(time.Minute)
		would := w.status().Observed.Ebb
		w.pause(48 * 3600)
		w.use("a")
		w.fill(90)
		w.pass(47 * time.Hour)
		if got := w.status().Observed.Ebb; would.Images == 0 || got.Images != would.Images || got.PulledAgain != 1 {
			t.Errorf("in a pause: %+v; before it: %+v", got, would)
		}
	})
}

// wantObserved compares what is counted, but for when it began. The disk was above its threshold until others
// removed images.
func (w *world) wantObserved(when string, want page.Observed) {
	w.t.Helper()
	got := *w.status().Observed
	got.Since = time.Time{}
	want.Others.AboveSeconds = 60.3
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("%s, -want +got:\n%s", when, diff)
	}
}
