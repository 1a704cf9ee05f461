package node

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/stats"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/cgroup/cgrouptest"
	"github.com/ebb-agent/ebb/runtime/fake"
)

func TestWritersOfANode(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cgroups = cgrouptest.Paths{5: "/" + fake.CRINamespace + "/c-app"}
		w.add("app", 10)
		w.rt.Run(fake.CRINamespace, "c-app", "app")
		w.kernel.SetWriters(bpf.Writer{Cgroup: 5, Grown: 4096}, bpf.Writer{Cgroup: 6, Grown: 1, EndedNS: 1, Path: "/gone"})
		w.up()
		if on := w.kernel.CountedOn(); len(on) != 1 || on[0] != fakeDev {
			t.Errorf("counted are %v", on)
		}
		e := w.agent.writers.Explain()
		if len(e.Writers) != 1 || e.Writers[0].Container != fake.CRINamespace+"/c-app" || !e.Containers || e.Unknown != "" {
			t.Errorf("writers are %+v", e)
		}
		if got := w.metric("ebb_node_container_growth_bytes", fake.CRINamespace+"/c-app"); got != 4096 {
			t.Errorf("growth is %g", got)
		}
		// It stops: what it wrote is there until it is deleted.
		w.kernel.EndWriter(5, uint64(w.sinceBoot()), "/"+fake.CRINamespace+"/c-app")
		w.pass(time.Hour)
		if got := w.metric("ebb_node_container_growth_bytes", fake.CRINamespace+"/c-app"); got != 4096 {
			t.Errorf("growth after the end is %g", got)
		}
		w.rt.Stop(fake.CRINamespace, "c-app")
		w.rt.Delete(fake.CRINamespace, "c-app")
		w.pass(time.Hour)
		if left, _ := w.kernel.Writers(); len(left) != 0 {
			t.Errorf("still counted: %v", left)
		}
	})
}

func TestWritersSwitchedOff(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cfg.Writers.Top = 0
		if err := w.kernel.CountWriters(1); err != nil {
			t.Fatal(err)
		}
		w.kernel.SetWriters(bpf.Writer{Cgroup: 5, Grown: 4096})
		w.up()
		if on := w.kernel.CountedOn(); len(on) != 0 {
			t.Errorf("still counted: %v", on)
		}
		if e := w.agent.writers.Explain(); e.Unknown == "" || len(e.Writers) != 0 {
			t.Errorf("writers are %+v", e)
		}
	})
}

// Nothing is ever reported as complete where nothing is counted.
func TestWritersOfAFilesystemThatDoesNotCount(t *testing.T) {
	inWorld(t, func(w *world) {
		w.disk.kind = "zfs"
		w.up()
		if e := w.agent.writers.Explain(); e.Unknown != "writers on zfs are not counted" {
			t.Errorf("writers are %+v", e)
		}
	})
}

func TestWritersThatCannotBeRead(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.FailWriters(errors.New("no memory"))
		w.up()
		w.wantLogged(1, "cannot read who fills the disk", "no memory")
		if n := w.metric("ebb_node_probe_counters_readable", "writers"); n != 0 {
			t.Error("the scrape reports that they can be read")
		}
		w.kernel.FailWriters(fmt.Errorf("writers: %w", bpf.ErrNotAttached))
		if _, err := w.agent.registry.Gather(); err != nil {
			t.Errorf("programs that are not there fail the scrape: %v", err)
		}
		if e := w.agent.writers.Explain(); !strings.Contains(e.Unknown, "not attached") {
			t.Errorf("writers are %+v", e)
		}
	})
	inWorld(t, func(w *world) {
		w.kernel = nil
		w.up()
		if e := w.agent.writers.Explain(); e.Unknown != bpf.ErrUnsupported.Error() {
			t.Errorf("writers are %+v", e)
		}
	})
}

func TestWritersAreServed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cgroups = cgrouptest.Paths{5: "/a\"b\xff</script>"}
		w.kernel.SetWriters(bpf.Writer{Cgroup: 5, Grown: 1, Shrunk: 4})
		w.up()
		var e stats.WritersExplanation
		if w.get("/writers", &e); len(e.Writers) != 1 || e.Writers[0].NetBytes != -3 {
			t.Errorf("served is %+v", e)
		}
	})
}
