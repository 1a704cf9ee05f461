package node

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/fake"
)

// A pull counts as a use also after the wall clock was set back, so that its date is before the one that the names had.
func TestPulledAfterTheClockWasSetBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.rt = fake.New(func() time.Time { return time.Now().Add(time.Duration(w.skew.Load())) })
		w.skew.Store(int64(2 * time.Hour))
		ids := w.five()
		w.skew.Store(0)
		w.pass(30 * time.Minute)
		w.add("i0", 40)
		pulled := w.explain().Time
		w.pass(20 * time.Minute)
		if i := w.image(ids[0]); i.LastUsed == nil || i.LastUsed.Before(pulled) {
			t.Errorf("last used at %v, pulled at %v", i.LastUsed, pulled)
		}
		w.rt.Tag(fake.CRINamespace, "i1", "i1-too")
		w.pass(20 * time.Minute)
		tagged := w.image(ids[1]).LastUsed
		w.rt.Untag(fake.CRINamespace, "i1-too") // the newest date goes with it
		w.pass(20 * time.Minute)
		if i := w.image(ids[1]); !i.LastUsed.Equal(*tagged) {
			t.Errorf("last used at %v, and its tag of %v is gone", i.LastUsed, tagged)
		}
	})
}

// A pause lasts as long as was left of it at a reboot, whatever the wall clock was and is: it neither ends at once, nor
// lasts for years.
func TestPauseAcrossAReboot(t *testing.T) {
	for name, off := range map[string]time.Duration{"the clock was behind": -10 * time.Hour, "the clock was ahead": 10 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.skew.Store(int64(off))
				w.up()
				w.pause(3600)
				w.pass(20 * time.Minute)
				w.down()
				w.skew.Store(0)
				w.boot, w.bootID, w.kernel = time.Now(), "boot-2", newFakeKernel()
				w.kernel.now = w.sinceBoot
				w.up()
				w.pass(39 * time.Minute)
				if p := w.status().Paused; p == nil {
					t.Fatal("the pause ended early")
				}
				w.pass(2 * time.Minute)
				if p := w.status().Paused; p != nil {
					t.Errorf("the pause goes on: %+v", p)
				}
			})
		})
	}
}

// A reboot takes the kernel's stamps, and dates from before it say nothing. An end that was
// taken in keeps its age, one that was not counts as now.
func TestEndsAcrossAReboot(t *testing.T) {
	inWorld(t, func(w *world) {
		heard, unheard := w.add("heard", 20), w.add("unheard", 20)
		w.up()
		w.rt.Run(fake.CRINamespace, "c1", "heard")
		w.rt.Run(fake.CRINamespace, "c2", "unheard")
		w.pass(time.Minute)
		w.rt.Stop(fake.CRINamespace, "c1")
		w.pass(time.Hour)
		w.down()
		w.rt.Stop(fake.CRINamespace, "c2")
		w.pass(48 * time.Hour)
		w.boot, w.bootID, w.kernel = time.Now(), "boot-2", newFakeKernel()
		w.kernel.now = w.sinceBoot
		w.up()
		w.pass(time.Minute)
		for id, want := range map[string]time.Duration{heard: time.Hour + time.Minute, unheard: time.Minute} {
			if i := w.image(id); i.LastUsed == nil || (w.explain().Time.Sub(*i.LastUsed)-want).Abs() > time.Second {
				t.Errorf("%v: last used at %v, at %v; want %v ago", i.References, i.LastUsed, w.explain().Time, want)
			}
		}
	})
}
