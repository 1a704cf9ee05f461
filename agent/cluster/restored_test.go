package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/policy/gc"
)

// passes says whether the door lets a deletion of a collector through, or why not.
func (b *bed) passes(name gc.Collector) string {
	why, taken := b.c.door.enter(time.Now(), gc.Action{Collector: name, Verb: gc.Delete, Root: rootOf(name)})
	if why == "" {
		b.c.door.leave(taken, gc.Gone)
	}
	return why
}

// restore etcd.
func (b *bed) restore() {
	unlock := b.api.lock()
	b.api.back++
	b.api.changed.Broadcast()
	unlock()
	b.after(time.Second)
}

// TestAfterRestore: what waits for a person waits until one has confirmed, whatever else
// one says; and that is kept for whoever leads next. The others go on.
func TestAfterRestore(t *testing.T) {
	m := &memory{}
	withMemory(t, m, func(b *bed) {
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
		for name, want := range map[gc.Collector]string{"nodes": resultRestored, "volumes": resultRestored, gc.Owners: "", "": ""} {
			b.want(name.String(), b.passes(name), want)
		}
	})
	withMemory(t, m, func(b *bed) { // another one leads
		b.want("nodes", b.passes("nodes"), resultRestored)
		b.want("held", b.c.door.holdsSide("nodes"), true)
		b.want("pods held", b.c.door.holdsSide("pods"), false)
		b.want("confirmed", b.c.ConfirmRestore(b.t.Context()), true)
		b.want("held", b.c.door.holdsSide("nodes"), false)
		b.after(time.Second)
		m.want(b.t, "confirmed", "")
		if why := b.passes("nodes"); why == resultRestored {
			t.Error(why)
		}
	})
	withMemory(t, m, func(b *bed) {
		b.want("held", b.c.door.holdsSide("nodes"), false)
	})
}

// TestRestoreThatNobodyKnows: where nothing can be kept, each start waits for a person.
func TestRestoreThatNobodyKnows(t *testing.T) {
	withMemory(t, &memory{err: election.ErrNoMark}, func(b *bed) {
		b.want("held", b.c.door.holdsSide("nodes"), true)
		b.want("paused", strings.Contains(b.c.door.state(), "paused"), false)
		b.want("said", strings.Contains(b.c.door.state(), "confirm-restore"), true)
		b.want("cascades", b.c.door.stands(time.Now()).Halted, "") // they wait for nobody
		b.want("confirmed", b.c.ConfirmRestore(b.t.Context()), true)
		b.want("held", b.c.door.holdsSide("nodes"), false)
	})
}
