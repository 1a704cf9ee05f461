package node

import (
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/fake"
)

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
