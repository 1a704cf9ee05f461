package oracle

import "testing"

// What another API server stores is judged by what is true when the oracle knows etcd,
// outlives a restore, and counts as owner at once.
func TestOutside(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(world)
		want string
	}{
		{"an owner lives", func(w world) {
			w.put("cm/o", "")
			w.outside("widget/a", "< cm/o")
			w.outside("widget/a", "gone")()
		}, LivingOwner},
		{"the owner's end is known later", func(w world) {
			w.put("cm/o", "")
			w.outside("widget/a", "< cm/o")
			judge := w.outside("widget/a", "gone")
			w.client("cm/o", "Background")
			w.end("cm/o")
			judge()
		}, ""},
		{"it is an owner", func(w world) { w.outside("widget/o", ""); w.put("cm/a", "< widget/o"); w.end("cm/a") }, LivingOwner},
		{"it was an owner", func(w world) {
			w.outside("widget/o", "")
			w.put("cm/a", "< widget/o")
			w.client("widget/o", "Background")
			w.outside("widget/o", "gone")()
			w.end("cm/a")
		}, ""},
		{"it orphaned", func(w world) {
			w.outside("widget/o", "")
			w.put("cm/a", "< widget/o")
			w.client("widget/o", "Orphan")
			w.outside("widget/o", "+ orphan terminating")()
			w.outside("widget/o", "gone")()
			w.end("cm/a")
		}, OrphanDeleted},
		{"it outlives a restore", func(w world) {
			w.outside("widget/o", "")
			w.put("cm/a", "< widget/o")
			w.restore("ns/space", "cm/a")
			w.end("cm/a")
		}, LivingOwner},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.do(w)
			got := ""
			for _, v := range w.oracle.Violations() {
				got += v.Kind
			}
			if got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}
