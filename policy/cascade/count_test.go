package cascade

import (
	"testing"

	"github.com/ebb-agent/ebb/policy/gc"
)

func TestWaiting(t *testing.T) {
	c := New(Config{})
	served(c)
	for i, o := range []gc.Object{
		{Name: "lives", Finalizers: []string{gc.ForegroundFinalizer, gc.OrphanFinalizer}},
		{Name: "goes", Terminating: true},
		{Name: "foreign", Terminating: true, Finalizers: []string{"example.io/other"}},
		{Name: "foreground", Terminating: true, Finalizers: []string{"example.io/other", gc.ForegroundFinalizer}},
		{Name: "orphan", Terminating: true, Finalizers: []string{gc.OrphanFinalizer}},
		{Name: "both", Terminating: true, Finalizers: []string{gc.ForegroundFinalizer, gc.OrphanFinalizer}},
	} {
		o.APIVersion, o.Kind, o.Namespace, o.UID, o.ResourceVersion = "v1", "Pod", "a", "uid-"+o.Name, "7"
		c.Observe(noon, o)
		if i == 5 {
			if foreground, orphan := c.Waiting(); foreground != 1 || orphan != 2 {
				t.Errorf("%d wait in the foreground, %d for orphans; want 1, 2", foreground, orphan)
			}
			o.Finalizers, o.ResourceVersion = nil, "8"
			c.Forget(noon, o)
		}
	}
	if foreground, orphan := c.Waiting(); foreground != 1 || orphan != 1 {
		t.Errorf("after one went: %d wait in the foreground, %d for orphans; want 1, 1", foreground, orphan)
	}
}

func BenchmarkWaiting(b *testing.B) {
	c, _ := tracking(tracked)
	for b.Loop() {
		c.Waiting()
	}
}
