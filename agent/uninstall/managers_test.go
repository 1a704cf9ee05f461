package uninstall

import (
	"fmt"
	"strings"
	"testing"
)

func TestCollects(t *testing.T) {
	for args, want := range map[string]bool{
		"kube-controller-manager": true,
		"kube-controller-manager --controllers=*,bootstrapsigner,tokencleaner":          true,
		"kube-controller-manager --controllers=*,-garbage-collector-controller":         false,
		"kube-controller-manager --controllers *,-garbage-collector-controller":         false,
		"kube-controller-manager -controllers=*,-garbagecollector --v=2":                false,
		"kube-controller-manager --controllers=deployment-controller":                   false,
		"kube-controller-manager --controllers=garbage-collector-controller":            true,
		"kube-controller-manager --controllers=a --controllers=*":                       true,
		"kube-controller-manager --enable-garbage-collector=false":                      false,
		"kube-controller-manager --enable-garbage-collector":                            true,
		"kube-controller-manager --controllers":                                         false, // it would not start
		"sh -c x --controllers=*,-pod-garbage-collector-controller,-ttl-after-finished": true,
	} {
		got, why := collects(strings.Fields(args))
		if got != want || got == (why != "") {
			t.Errorf("%s: %v (%q), want %v", args, got, why, want)
		}
	}
}

func TestMigrates(t *testing.T) {
	for args, want := range map[string]bool{
		"kube-controller-manager --controllers=*,-garbage-collector-controller":                                      true,
		"kube-controller-manager --controllers=*,-garbage-collector-controller,-storage-version-migrator-controller": false,
		"kube-controller-manager --controllers=deployment-controller":                                                false,
		"kube-controller-manager --controllers":                                                                      false,
	} {
		if got := migrates(strings.Fields(args)); got != want {
			t.Errorf("%s: %v, want %v", args, got, want)
		}
	}
}

func FuzzCollects(f *testing.F) {
	f.Add("a --controllers *,-garbagecollector")
	f.Fuzz(func(t *testing.T, line string) {
		if yes, why := collects(strings.Fields(line)); yes && why != "" {
			t.Errorf("%q", why)
		}
	})
}

// TestCollector: a control plane that can be seen and does not collect refuses. One that
// does is a note. All else is reported as unknown.
func TestCollector(t *testing.T) {
	pod := func(name, phase, args string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"status":{"phase":%q},"spec":{"containers":[{"command":["kube-controller-manager",%q]}]}}`, name, phase, args)
	}
	const off = "--controllers=*,-garbage-collector-controller"
	for _, c := range []struct{ name, pods, refused, note string }{
		{"off", pod("kcm-a", "Running", off) + "," + pod("kcm-b", "Running", off), "kube-system/kcm-a (" + off + ")", ""},
		{"one is rolled", pod("kcm-a", "Running", off) + "," + pod("kcm-b", "Running", "--v=2"), "", "these run a garbage collector, by their arguments: kube-system/kcm-b"},
		{"gone", pod("kcm-a", "Failed", off), "", "ebb cannot detect"},
		{"none", "", "", "ebb cannot detect"},
		{"odd", `{"metadata":{"name":"x"},"status":{"phase":"Running"}}`, "", "ebb cannot detect"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer()
			s.json("/api/v1/things", page(""))
			s.json("/api/v1/namespaces/kube-system/pods", page("", c.pods))
			v := s.check(t, CheckOptions{Controller: true})
			if v.MayGo != (c.refused == "") || !strings.Contains(fmt.Sprint(v.Refusals), c.refused) || !strings.Contains(fmt.Sprint(v.Notes), c.note) {
				t.Errorf("%+v", v)
			}
			if v := s.check(t, CheckOptions{Controller: true, OtherCollector: true}); !v.MayGo {
				t.Errorf("stated: %+v", v)
			}
		})
	}
}
