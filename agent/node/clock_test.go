package node

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/fake"
)

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
