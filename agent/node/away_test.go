package node

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// withdraw takes an image's names away as an agent does that then dies.
func (w *world) withdraw(id string) {
	w.t.Helper()
	checked, err := w.rt.Check(w.t.Context(), id)
	if err == nil {
		_, err = w.rt.Withdraw(w.t.Context(), checked[id])
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// history is what is on record of images, and where the kernel stamps them.
func (w *world) history(ids ...string) map[string]state.Image {
	w.t.Helper()
	all := make(map[string]state.Image)
	w.atRest(func() {
		for _, id := range ids {
			i := w.agent.lastUse.Image(id)
			i.Updated = time.Time{} // when its names were put back
			all[id] = i
		}
	})
	return all
}

// records are those that the agent would save now.
func (w *world) records() (r state.Records) {
	w.agent.lastUse.Save(&r)
	return r
}

// atRest reads what belongs to the loop, after it has harvested.
func (w *world) atRest(read func()) {
	w.t.Helper()
	synctest.Wait()
	w.agent.monitor.DoQuietly(func() {
		w.agent.lastUse.Harvest()
		read()
	})
}

func (w *world) wantHistory(want map[string]state.Image) {
	w.t.Helper()
	got := make(map[string]state.Image)
	for id := range want {
		got[id] = w.history(id)[id]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("what is remembered of images (-before, +after):\n%s", diff)
	}
}

// A pod comes for an image whose names are away. The runtime lists it late.
func TestPutBackInARun(t *testing.T) {
	for name, unseen := range map[string]time.Duration{"at once": 0, "late": 30 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.pods = &fakePods{}
				ids := w.many(9)
				before := w.history(ids[0], ids[4], ids[5], ids[6])
				w.rt.SetFaults(fake.Faults{Unseen: unseen, During: func(id string) {
					if id == ids[0] {
						w.pods.set(nil, kube.Pod{UID: "1", Images: []string{"i00"}})
					}
				}})
				w.fill(81)
				w.pass(time.Minute)
				w.wantRemoved(ids[1:4]...)
				w.wantLogged(1, "image kept by the last check", "image="+ids[0])
				w.wantHistory(before)
				w.rt.SetFaults(fake.Faults{})
				w.pods.set(nil)
				w.fill(81)
				w.pass(time.Minute)
				w.wantRemoved(slices.Concat(ids[1:4], ids[:1], ids[4:6])...)
			})
		})
	}
}

// An agent was killed while names were away, and somebody pulled the image before the next agent: that is a use, as it is
// in a run.
func TestPulledBeforeMend(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.down()
		w.withdraw(ids[0])
		w.pass(time.Hour)
		w.add("i0", 40)
		pulled := time.Now()
		w.up()
		w.pass(20 * time.Minute)
		if i := w.image(ids[0]); i.LastUsed == nil || i.LastUsed.Before(pulled) {
			t.Errorf("last used at %v, pulled at %v", i.LastUsed, pulled)
		}
		w.fill(81)
		w.wantRemoved(ids[1], ids[2])
	})
}

// An agent was killed while names were away. Neither the next one's mending, nor that
// it fails for a while, nor a list that is late makes the images young.
func TestMendKeepsHistory(t *testing.T) {
	for name, f := range map[string]struct {
		fails, unseen time.Duration
	}{
		"at once":           {},
		"listed late":       {unseen: 20 * time.Second},
		"after some errors": {fails: 5 * time.Minute},
		"both":              {fails: 10 * time.Minute, unseen: 50 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				ids := w.five()
				before := w.history(ids...)
				w.down()
				used := before[ids[2]]
				used.LastUsed = time.Now()
				before[ids[2]] = used
				w.kernel.ran(w.keyOf(ids[2])) // the last thing that the earlier agent did not see
				for _, id := range ids[:3] {
					w.withdraw(id)
				}
				w.rt.SetFaults(fake.Faults{Unseen: f.unseen})
				if f.fails > 0 {
					w.rt.SetFaults(fake.Faults{End: errors.New("no space left on device")})
				}
				w.up()
				w.atRest(func() {
					if n := len(w.records().Layers); n != len(ids) {
						t.Errorf("it is remembered of %d layers where they are, not of %d", n, len(ids))
					}
				})
				w.pass(f.fails)
				w.rt.SetFaults(fake.Faults{Unseen: f.unseen})
				w.pass(20 * time.Minute)
				w.wantHistory(before)
				w.fill(81)
				w.wantRemoved(ids[0], ids[1])
			})
		})
	}
}

// An agent that is stopped in a run puts names back. For the next one these images are as old as they were.
func TestStoppedInARun(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.many(9)
		before := w.history(ids...)
		stopped := make(chan struct{})
		w.rt.SetFaults(fake.Faults{During: func(id string) {
			if id == ids[0] {
				go func() { w.down(); close(stopped) }()
				time.Sleep(10 * time.Millisecond) // until it has heard
			}
		}})
		w.fill(92)
		<-stopped
		w.rt.SetFaults(fake.Faults{})
		w.wantRemoved()
		w.fill(50)
		w.pass(time.Minute)
		w.up()
		w.pass(time.Minute)
		w.wantHistory(before)
		w.fill(81)
		w.pass(time.Minute)
		w.wantRemoved(ids[:3]...)
	})
}

// Who waits for images for ever remembers all that ever were.
func TestImagesThatDoNotComeBackAreForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		w.down()
		w.withdraw(ids[0])
		w.rt.Untag(fake.CRINamespace, "i1")
		w.rt.SetFaults(fake.Faults{End: errors.New("no space left on device")})
		w.up()
		w.pass(time.Minute)
		if got := w.history(ids[1])[ids[1]]; got.LastUsed.IsZero() {
			t.Error("an image that may have been withdrawn is forgotten at once")
		}
		w.pass(26 * time.Hour) // the lease of a real runtime lasts for a day
		w.atRest(func() {
			if n := len(w.records().Images); n != 3 {
				t.Errorf("%d images are remembered; 3 are there", n)
			}
			if n := len(w.records().Layers); n != 3 {
				t.Errorf("%d layers are remembered", n)
			}
		})
	})
}

// The names of the oldest image are taken away and put back at once, because others made
// room meanwhile. The runtime lists it a moment later; it is still the first to go.
func TestPutBackIsFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		ids := w.many(9)
		w.rt.SetFaults(fake.Faults{Unseen: 300 * time.Millisecond, During: func(id string) {
			if id == ids[0] && len(w.rt.Removed()) == 0 {
				w.rt.SetFaults(fake.Faults{Unseen: 300 * time.Millisecond})
				w.rt.SetDisk(size, size*88/100-180*mib, 100000) // from 92 percent
			}
		}})
		w.fill(92)
		w.pass(time.Minute)
		w.wantRemoved(ids[:7]...) // 2 percent each, to 75
	})
}

// What somebody else removes and pulls again is new, also beside images that are away,
// and soon after it was away itself.
func TestPulledAgainIsNew(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		ids := w.many(9)
		w.rt.SetFaults(fake.Faults{Unseen: 40 * time.Second, During: func(id string) {
			if id == ids[0] {
				w.pods.set(nil, kube.Pod{UID: "1", Images: []string{"i00"}})
			}
		}})
		w.rt.Untag(fake.CRINamespace, "docker.io/library/i08:latest")
		w.fill(81)
		w.pass(10 * time.Second)
		w.wantLogged(1, "image kept by the last check", "image="+ids[0])
		if w.add("docker.io/library/i08:latest", 20) != ids[8] {
			t.Fatal("it is another image")
		}
		w.pass(10 * time.Second)
		if got := w.history(ids[8])[ids[8]]; !got.LastUsed.IsZero() || w.agent.clock.Now().Sub(got.Arrived) > time.Minute {
			t.Errorf("it is remembered as it was before: %+v", got)
		}
		w.pass(3 * time.Minute)
		w.rt.Untag(fake.CRINamespace, "docker.io/library/i00:latest")
		w.pass(time.Minute)
		w.add("docker.io/library/i00:latest", 20)
		w.pass(time.Minute)
		if got := w.history(ids[0])[ids[0]]; !got.LastUsed.IsZero() || w.agent.clock.Now().Sub(got.Arrived) > 2*time.Minute {
			t.Errorf("the one that was put back is remembered as it was before: %+v", got)
		}
	})
}

// Somebody pulls an image while it is removed. It has only just come, or it would go
// and be pulled for ever.
func TestPulledWhileRemoved(t *testing.T) {
	inWorld(t, func(w *world) {
		ids := w.five()
		again := 0
		w.rt.SetFaults(fake.Faults{Withdraw: inventory.ErrUnsupported})
		w.disk.during = func() { // the first removal is being measured
			if again++; again == 1 {
				w.add("i0", 40)
			}
		}
		w.fill(81)
		w.pass(time.Minute)
		w.wantRemoved(ids[0], ids[1], ids[2])
		w.wantReason(ids[0], image.KeptNotNeeded)
		if i := w.image(ids[0]); i.LastUsed != nil {
			t.Errorf("it counts as used at %v", i.LastUsed)
		}
	})
}

// An image that is pulled again while its names are away stays, and counts as used and as new from then on.
func TestPulledWhileNamesAreAway(t *testing.T) {
	inWorld(t, func(w *world) {
		w.pods = &fakePods{}
		ids := w.five()
		var pulled time.Time
		w.rt.SetFaults(fake.Faults{During: func(id string) {
			if id == ids[0] && pulled.IsZero() {
				pulled = time.Now()
				w.add("i0", 40)
			}
		}})
		w.fill(81)
		w.pass(time.Minute)
		w.wantRemoved(ids[1], ids[2])
		if i := w.image(ids[0]); i.LastUsed == nil || i.LastUsed.Before(pulled) {
			t.Errorf("it counts as used at %v, and was pulled at %v", i.LastUsed, pulled)
		}
		w.fill(99)
		w.pass(time.Minute)
		w.wantRemoved(ids[1], ids[2], ids[3], ids[4], ids[0])
	})
}
