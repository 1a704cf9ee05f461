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

// What waits for something in another API server has as long as that has.
func TestWaitsOutside(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"cm/p", "cm/q", "cm/r"} {
		w.put(name, "")
		w.client(name, "Foreground")
	}
	w.put("cm/p", "+ foregroundDeletion terminating")
	w.put("cm/q", "< !cm/p + foregroundDeletion terminating")
	w.put("cm/r", "+ foregroundDeletion terminating")
	w.put("cm/s", "< !cm/r")
	w.outside("widget/a", "< !cm/q")
	outside := map[string]bool{"uid-cm/p": true, "uid-cm/q": true, "uid-cm/r": false, "uid-cm/s": false}
	for _, d := range w.oracle.Outstanding(w.now) {
		if want, ok := outside[d.UID]; ok && d.Outside != want {
			t.Errorf("%s: outside is %v", d.Name, d.Outside)
		}
		delete(outside, d.UID)
	}
	if len(outside) > 0 {
		t.Errorf("not outstanding: %v", outside)
	}
}
