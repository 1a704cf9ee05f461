package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/policy/gc"
)

// passes returns why the gate refuses a deletion of a collector, or "" if it does not.
func (b *fixture) passes(name gc.Collector) string {
	a := gc.Action{Collector: name, Verb: gc.Delete, Root: gc.Coordinates{APIVersion: "v1", Kind: "Namespace", Name: "n", UID: "n"}}
	if isOtherCollector(a) {
		a.Root = name.Root()
	}
	why, taken := b.c.gate.Admit(time.Now(), a)
	if why == "" {
		b.c.gate.Finish(taken, gc.Gone)
	}
	return why
}

// restore etcd, and wait until that is known.
func (b *fixture) restore() {
	b.goBack()
	b.after(time.Second)
}

// goBack restores etcd. It waits for nothing.
func (b *fixture) goBack() {
	unlock := b.api.lock()
	defer unlock()
	b.api.back++
	b.api.changed.Broadcast()
}

// TestAfterRestore: what waits for a person waits until one has confirmed, whatever other commands
// a person gives; and that is kept for whoever leads next. The others go on.
func TestAfterRestore(t *testing.T) {
	m := &memory{}
	withMemory(t, m, func(b *fixture) {
		b.want("confirmed before", b.c.ConfirmRestore(b.t.Context()), false)
		b.restore()
		m.want(b.t, "restored", "restored")
		owner := b.api.put(set("o"))
		pods := b.pods(owner, 2)
		b.api.remove(owner, gc.Background)
		b.after(time.Second)
		b.want("owners' left", b.left(pods), 0)
		b.c.Pause(b.t.Context())
		b.want("resumed", b.c.Resume(b.t.Context()), "")
		for name, want := range map[gc.Collector]string{"nodes": gate.Unconfirmed, "volumes": gate.Unconfirmed, gc.Owners: "", "": ""} {
			b.want(name.String(), b.passes(name), want)
		}
	})
	withMemory(t, m, func(b *fixture) { // another one leads
		b.want("nodes", b.passes("nodes"), gate.Unconfirmed)
		b.want("held", b.c.gate.Held("nodes"), true)
		b.want("pods held", b.c.gate.Held("pods"), false)
		b.want("confirmed", b.c.ConfirmRestore(b.t.Context()), true)
		b.want("held", b.c.gate.Held("nodes"), false)
		b.after(time.Second)
		m.want(b.t, "confirmed", "")
		if why := b.passes("nodes"); why == gate.Unconfirmed {
			t.Error(why)
		}
	})
	withMemory(t, m, func(b *fixture) {
		b.want("held", b.c.gate.Held("nodes"), false)
	})
}

// TestRestoreThatNobodyKnows: where nothing can be kept, each start waits for a person.
func TestRestoreThatNobodyKnows(t *testing.T) {
	withMemory(t, &memory{err: election.ErrNoLease}, func(b *fixture) {
		b.after(time.Minute) // a refusal may pass
		b.want("held", b.c.gate.Held("nodes"), true)
		b.want("paused", strings.Contains(b.c.gate.Status(), "paused"), false)
		b.want("confirmation is asked for", strings.Contains(b.c.gate.Status(), "confirm-restore"), true)
		b.want("cascades", strings.Join(b.c.gate.Halts(), ""), "") // they wait for nobody
		b.want("confirmed", b.c.ConfirmRestore(b.t.Context()), true)
		b.want("held", b.c.gate.Held("nodes"), false)
	})
}
