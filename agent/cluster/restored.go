package cluster

import (
	"fmt"
	"net/http"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
)

// waitsForPerson are the collectors that ask for nothing from when etcd was restored until
// a person has confirmed what stands there now. What they delete is more than an object:
// in a cluster that came back from a backup, what lives looks as if nobody wanted it.
var waitsForPerson = map[gc.Collector]bool{"nodes": true, "volumes": true}

// etcdRestored has those collectors wait. That is written down for whoever leads next, as
// a pause by hand is.
func (d *door) etcdRestored(why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.restored = true
	d.show()
	if d.waiting() {
		d.log.Warn("nodes and volumes wait: look at what came back, then POST /control/confirm-restore", "reason", why)
	}
	d.changed()
}

// confirm ends that. It says whether there was something to confirm.
func (d *door) confirm() (was bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if was, d.restored = d.restored, false; was {
		d.log.Info("nodes and volumes are collected again", "reason", "a person confirmed what stands since etcd was restored")
	}
	d.show()
	d.changed()
	return was
}

// waiting says whether a collector that is on waits for a person. The caller holds the
// lock.
func (d *door) waiting() bool {
	for name := range waitsForPerson {
		if d.restored && d.config.Collectors.Mode(name) != config.Off {
			return true
		}
	}
	return false
}

// waitsAfterRestore is waiting, for who does not hold the lock.
func (d *door) waitsAfterRestore() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting()
}

// waits says whether a collector waits for a person.
func (d *door) waits(name gc.Collector) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.restored && waitsForPerson[name]
}

// holdsSide says whether nothing of a collector would be let through.
func (d *door) holdsSide(name gc.Collector) bool { return d.holdsDeletions() || d.waits(name) }

func (c *Controller) serveConfirmRestore(w http.ResponseWriter, r *http.Request) {
	if c.ConfirmRestore(r.Context()) {
		fmt.Fprintln(w, "confirmed: nodes and volumes are collected again")
	} else {
		fmt.Fprintln(w, "there was nothing to confirm: it is not known that etcd was restored")
	}
	c.sayKept(w, r)
}
