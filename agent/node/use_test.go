package node

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// A job that ran on Monday and is removed on Friday was used on Monday.
func TestDeadContainersUseNothing(t *testing.T) {
	for name, kernel := range map[string]*fakeKernel{"kernel": newFakeKernel(), "no programs": nil} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if w.kernel = kernel; kernel != nil {
					kernel.now = w.sinceBoot
				}
				w.cfg.Images.MaximumAge = config.Duration(10 * time.Hour)
				job, other := w.add("job", 100), w.add("other", 100)
				w.up()
				w.rt.Run(fake.CRINamespace, "job-1", "job")
				w.pass(5 * time.Second)
				w.rt.Stop(fake.CRINamespace, "job-1")
				ended := time.Now()
				w.pass(3 * time.Hour)
				w.use("other")
				w.pass(time.Hour)
				w.wantReason(job, image.KeptInUse)
				w.rt.Delete(fake.CRINamespace, "job-1")
				w.pass(time.Minute)
				if i := w.image(job); i.LastUsed == nil || i.LastUsed.Sub(ended).Abs() > time.Millisecond {
					t.Errorf("the job ended at %v; its image counts as used at %v", ended, i.LastUsed)
				}
				w.fill(80)
				w.pass(time.Minute)
				w.wantRemoved(job)

				w.pass(8 * time.Hour) // nine since its use
				w.wantRemoved(job)
				w.pass(2 * time.Hour)
				w.wantRemoved(job, other)
			})
		})
	}
}

// One that is gone without a word may have lived until that was noticed, unless the kernel
// has stamped its image since it was last seen: an older stamp proves nothing.
func TestGoneWithoutAWord(t *testing.T) {
	for _, stamped := range []bool{false, true} {
		inWorld(t, func(w *world) {
			id := w.add("job", 100)
			key := w.keyOf(id)
			w.pass(time.Second)
			w.up()
			w.rt.Run(fake.CRINamespace, "c", "job")
			w.pass(time.Second)
			w.kernel.ran(key)
			w.image(id) // reads the stamps, between two looks
			w.pass(time.Hour)
			w.rt.CutEvents(errors.New("containerd restarts"))
			w.rt.SetFaults(fake.Faults{Inventory: inventory.ErrUnavailable})
			w.pass(time.Minute)
			w.rt.Delete(fake.CRINamespace, "c")
			ended := time.Now()
			if stamped {
				w.kernel.ran(key)
			}
			w.pass(time.Hour)
			back := time.Now()
			w.rt.SetFaults(fake.Faults{})
			w.rt.ResumeEvents()
			w.pass(2 * retryMost)
			if at := *w.image(id).LastUsed; stamped && !at.Equal(ended) || !stamped && at.Before(back) {
				t.Errorf("stamped: %v; it ended at %v, and nobody could tell until %v; used at %v", stamped, ended, back, at)
			}
		})
	}
}

// An end that the kernel has stamped stays the end, although the image's record had taken
// the stamp in before an agent ended that did not live to hear of the end.
func TestEndOnRecordUnheard(t *testing.T) {
	inWorld(t, func(w *world) {
		id := w.add("job", 100)
		key := w.keyOf(id)
		w.pass(time.Second)
		w.up()
		w.rt.Run(fake.CRINamespace, "c", "job")
		w.pass(time.Hour)
		w.rt.CutEvents(errors.New("containerd restarts"))
		w.rt.SetFaults(fake.Faults{Inventory: inventory.ErrUnavailable})
		w.rt.Delete(fake.CRINamespace, "c")
		ended := time.Now()
		w.kernel.ran(key)
		w.pass(time.Minute)
		w.down() // which saves what the kernel has stamped
		w.rt.SetFaults(fake.Faults{})
		w.rt.ResumeEvents()
		w.up()
		w.pass(time.Minute)
		w.wantUsed(id, ended)
	})
}

// An event is heard of when the loop has time for it. The use that it reports was when it
// happened.
func TestUseWhileBusy(t *testing.T) {
	for name, kernel := range map[string]*fakeKernel{"kernel": newFakeKernel(), "no programs": nil} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if w.kernel = kernel; kernel != nil {
					kernel.now = w.sinceBoot
				}
				id := w.add("job", 100)
				w.pass(time.Second)
				w.up()
				w.pass(time.Minute)
				w.rt.SetFaults(fake.Faults{Delay: 20 * time.Second})
				w.add("other", 100) // which is looked at
				w.pass(10 * time.Second)
				w.use("job")
				ended := time.Now().Add(-time.Second)
				w.pass(time.Minute)
				w.rt.SetFaults(fake.Faults{})
				w.pass(time.Minute)
				w.wantUsed(id, ended)
			})
		})
	}
}

// A job that ran before its image was listed ended when it did, although its record was
// still there at the next look, without a task, and gone at the one after.
func TestEndBeforeItsImageIsListed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.up()
		w.pass(time.Minute)
		w.rt.SetFaults(fake.Faults{Undated: true})
		id := w.add("job", 100)
		w.rt.Run(fake.CRINamespace, "c", "job")
		w.rt.Stop(fake.CRINamespace, "c")
		w.pass(eventPause + time.Millisecond) // it is looked at
		looked := time.Now()
		w.rt.Delete(fake.CRINamespace, "c")
		w.pass(time.Hour)
		if at := *w.image(id).LastUsed; at.After(looked) {
			t.Errorf("it had ended at %v, and was used at %v", looked, at)
		}
	})
}

// user makes containers live and die at random, and knows when images were used.
type user struct {
	*world
	random *rand.Rand
	names  []string
	ids    map[string]string    // image name → ID
	last   map[string]time.Time // image name → the last use by a container that went
	image  map[string]string    // container → image name
	lives  map[string]bool      // container → it runs
	ran    map[string]time.Time // container → when a process of it last began or ended
	keys   map[string]bpf.Key
	made   int
	deaf   bool            // the agent is down, or hears of no events
	before map[string]bool // what was there when it became so → it ran
	gone   map[string]bool // image name → one of those that ran has gone since
}

// Whatever containers do, and whatever the agent misses of it: what is dead was last
// used when its last process began or ended. One that lived and is gone without a word,
// where the kernel cannot tell, may have lived until the agent looked again, and no longer.
func TestAnyUse(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				u := &user{
					world: w, random: rand.New(rand.NewPCG(seed, 5)), ids: map[string]string{}, last: map[string]time.Time{},
					image: map[string]string{}, lives: map[string]bool{}, ran: map[string]time.Time{}, keys: map[string]bpf.Key{}, gone: map[string]bool{},
				}
				if seed%2 == 1 {
					w.kernel = nil
				}
				for n := range 4 {
					name := fmt.Sprint("i", n)
					u.names = append(u.names, name)
					u.ids[name] = w.add(name, 20)
					u.keys[name] = w.keyOf(u.ids[name])
				}
				w.pass(time.Second)
				w.up()
				for step := range 60 {
					what := u.act()
					w.pass(time.Duration(1 + u.random.Int64N(int64(10*time.Minute))))
					if u.deaf {
						continue
					}
					if u.check(); t.Failed() {
						t.Fatalf("step %d: %s", step, what)
					}
				}
			})
		})
	}
}

// process is one that begins or ends.
func (u *user) process(container string, begins bool) {
	u.lives[container], u.ran[container] = begins, time.Now()
	if u.kernel != nil {
		u.kernel.ran(u.keys[u.image[container]])
	}
}

func (u *user) act() string {
	const ns = fake.CRINamespace
	containers := slices.Sorted(maps.Keys(u.image))
	act := u.random.IntN(12)
	if act < 4 || len(containers) == 0 {
		c := fmt.Sprint("c", u.made)
		u.made++
		u.image[c] = u.names[u.random.IntN(len(u.names))]
		u.rt.Run(ns, c, u.image[c])
		u.process(c, true)
		return c + " runs from " + u.image[c]
	}
	c := containers[u.random.IntN(len(containers))]
	switch {
	case act < 7 && u.lives[c]:
		u.rt.Stop(ns, c)
		u.process(c, false)
		return c + " ends"
	case act < 9 && !u.lives[c]:
		u.remove(c)
		return c + " is deleted"
	case act == 9 && !u.deaf:
		u.deaf, u.before = true, map[string]bool{}
		for c := range u.image {
			u.before[c] = u.lives[c]
		}
		if u.random.IntN(2) == 0 {
			u.down()
			return "the agent ends"
		}
		u.rt.CutEvents(errors.New("containerd restarts"))
		u.rt.SetFaults(fake.Faults{Inventory: inventory.ErrUnavailable})
		return "the runtime goes"
	case act > 9 && u.deaf:
		u.hear()
		return "the agent hears again"
	}
	return "nothing"
}

// remove removes a dead container. One that came, ran and goes while nobody looks leaves
// no trace where there are no programs.
func (u *user) remove(c string) {
	name := u.image[c]
	u.rt.Delete(fake.CRINamespace, c)
	delete(u.image, c)
	ran, seen := u.before[c]
	if u.deaf && ran && u.kernel == nil {
		u.gone[name] = true
	}
	if !u.deaf || seen || u.kernel != nil {
		u.last[name] = clock.Latest(u.last[name], u.ran[c])
	}
}

// hear brings agent and runtime together again.
func (u *user) hear() {
	back := time.Now()
	if u.stop == nil {
		u.up()
	} else {
		u.rt.SetFaults(fake.Faults{})
		u.rt.ResumeEvents()
	}
	u.pass(2 * retryMost)
	for name := range u.gone {
		got := u.lastUsed(name)
		if got.Before(back) || got.After(time.Now()) {
			u.t.Errorf("one of %s is gone, somewhen before %v; the agent has %v", name, back, got)
		}
		u.last[name] = got
	}
	u.deaf, u.before = false, nil
	clear(u.gone)
}

func (u *user) check() {
	u.t.Helper()
	for _, name := range u.names {
		living, last := false, u.last[name]
		for c, image := range u.image {
			if image == name {
				living, last = living || u.lives[c], clock.Latest(last, u.ran[c])
			}
		}
		got := u.lastUsed(name)
		switch {
		case living && got.Before(last):
			u.t.Errorf("%s lives, and counts as used at %v", name, got)
		case living:
		case !got.Equal(last):
			u.t.Errorf("%s was used at %v; the agent has %v", name, last, got)
		}
	}
}

// lastUsed is when the agent has an image used last; the zero time if never.
func (u *user) lastUsed(name string) time.Time {
	u.t.Helper()
	if at := u.world.image(u.ids[name]).LastUsed; at != nil {
		return *at
	}
	return time.Time{}
}

// What is heard before the images could be listed for the first time counts all the same.
func TestHeardBeforeTheFirstLook(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel = nil
		id := w.add("job", 100)
		w.up()
		w.rt.Run(fake.CRINamespace, "c", "job")
		w.pass(time.Hour)
		w.down()
		w.rt.SetFaults(fake.Faults{Inventory: inventory.ErrUnavailable})
		w.up()
		w.pass(time.Minute)
		w.rt.Stop(fake.CRINamespace, "c")
		w.rt.Delete(fake.CRINamespace, "c")
		ended := time.Now()
		w.pass(time.Second)
		w.rt.SetFaults(fake.Faults{})
		w.pass(2 * retryMost)
		if at := *w.image(id).LastUsed; at.Before(ended) {
			t.Errorf("it ended at %v, and was used at %v", ended, at)
		}
	})
}

// An end that was heard of is not taken back by a reading that does not show it: the
// removal that follows is no use.
func TestHeardEndStays(t *testing.T) {
	// A second after the start the agent has yet to look for what came before the events.
	for _, lives := range []time.Duration{time.Second, time.Minute} {
		t.Run(lives.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				id := w.add("job", 100)
				w.up()
				w.rt.SetFaults(fake.Faults{Undated: true})
				w.rt.Run(fake.CRINamespace, "c", "job")
				w.pass(lives)
				w.rt.Stop(fake.CRINamespace, "c")
				w.pass(time.Minute)
				w.rt.Delete(fake.CRINamespace, "c")
				deleted := time.Now()
				w.pass(time.Hour)
				if at := *w.image(id).LastUsed; at.After(deleted) {
					t.Errorf("it was removed at %v, and used at %v", deleted, at)
				}
			})
		})
	}
}

// Whoever pulls, imports or tags an image that is there wants it: it is as recent as one that was used
// then, and as new. That an agent hears of it only after its start changes nothing.
func TestNamesThatAreWritten(t *testing.T) {
	for name, write := range map[string]func(*world){
		"tagged": func(w *world) { w.rt.Tag(fake.CRINamespace, "i0", "mine") },
		"pulled": func(w *world) { w.add("i0", 40) },
	} {
		for _, down := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " while down ", down), func(t *testing.T) {
				inWorld(t, func(w *world) {
					ids := w.five()
					w.pass(time.Hour)
					if down {
						w.down()
					}
					write(w)
					if down {
						w.pass(time.Minute)
						w.up()
					}
					w.pass(eventSpacing + time.Second) // a look for another reason can have been a moment ago
					at := w.history(ids[0])[ids[0]]
					if ago := time.Since(at.Arrived); !at.Arrived.Equal(at.LastUsed) || ago < time.Second || ago > 2*time.Minute {
						t.Errorf("arrived %v ago, last used %v ago", ago, time.Since(at.LastUsed))
					}
					w.fill(81)
					w.wantRemoved(ids[1], ids[2])
				})
			})
		}
	}
	// The minimum age counts from then, too.
	inWorld(t, func(w *world) {
		w.cfg.Images.MinimumAge = config.Duration(2 * time.Minute)
		ids := w.five()
		w.pass(time.Hour)
		for n := range 5 {
			w.rt.Tag(fake.CRINamespace, fmt.Sprint("i", n), fmt.Sprint("mine", n))
		}
		w.pass(eventSpacing + time.Second)
		w.fill(81)
		w.wantRemoved()
		w.wantReason(ids[0], image.KeptYoung)
	})
}

// An unused image names its latest user. An image that no container has used names none.
func TestLastUser(t *testing.T) {
	inWorld(t, func(w *world) {
		used, unused := w.add("used", 10), w.add("unused", 10)
		w.up()
		w.rt.Run(fake.CRINamespace, "c-1", "used")
		w.pass(time.Minute)
		w.rt.Stop(fake.CRINamespace, "c-1")
		w.rt.Delete(fake.CRINamespace, "c-1")
		w.pass(time.Minute)
		var why page.Why
		w.get("/why?image=used", &why)
		i := w.image(used)
		if want := "container k8s.io/c-1"; i.LastUser != want || why.Image.LastUser != want || len(i.UsedBy) > 0 || w.image(unused).LastUser != "" {
			t.Errorf("used by %q, the latest user is %q and %q, want %q", i.UsedBy, i.LastUser, why.Image.LastUser, want)
		}
	})
}

// Pages list images in the order in which they would go. The policy counts an image that was never
// seen in use as used when it came.
func TestPagesListImagesInTheirOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		used := w.add("used", 10)
		w.up()
		w.use("used")
		w.pass(time.Hour)
		unseen := w.add("unseen", 10)
		w.pass(time.Hour)
		want := []string{used, unseen}
		if p := w.plan(page.PlanRequest{FreeBytes: 20 * mib}); !slices.Equal(ids(p.Remove), want) {
			t.Errorf("the plan removes %q, want %q", ids(p.Remove), want)
		}
		if got := ids(w.explain().Images); !slices.Equal(got, want) {
			t.Errorf("/images has %q, want %q", got, want)
		}
	})
}
