package fields

import (
	"time"

	"github.com/ebb-agent/ebb/policy/leases"
)

// Lease reads a coordination.k8s.io/v1 Lease into a [leases.Lease].
func Lease(message []byte) (any, error) {
	var r reader
	p := r.parts(message)
	l := leases.Lease{Holder: r.text(p.spec, 1)}  // holderIdentity
	r.pairs(p.metadata, 11, func(key, _ []byte) { // labels
		l.Identity = l.Identity || string(key) == "apiserver.kubernetes.io/identity"
	})
	seconds, _ := r.number(p.spec, 2)                  // leaseDurationSeconds
	if at := r.time(r.take(p.spec, 4)); !at.IsZero() { // renewTime
		l.Expires = at.Add(time.Duration(max(int32(seconds), 0)) * time.Second)
	}
	return r.result(l)
}
