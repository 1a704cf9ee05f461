package fields

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/policy/leases"
	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// Lease reads a coordination.k8s.io/v1 Lease into a [leases.Lease].
func Lease(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	var l leases.Lease
	err = pairs(p.metadata, 11, func(key, _ []byte) { // labels
		l.Identity = l.Identity || string(key) == "apiserver.kubernetes.io/identity"
	})
	if err != nil {
		return nil, err
	}
	var holder, renewed []byte
	var seconds int64
	err = protobuf.Each(p.spec, func(n protowire.Number, t protowire.Type, b []byte) int {
		switch n {
		case 1: // holderIdentity
			return protobuf.Take(t, b, &holder)
		case 2: // leaseDurationSeconds
			return protobuf.Int(t, b, &seconds)
		case 4: // renewTime
			return protobuf.Take(t, b, &renewed)
		}
		return 0
	})
	if err != nil {
		return nil, err
	}
	at, err := protobuf.Time(renewed)
	if err != nil {
		return nil, err
	}
	if l.Holder = string(holder); !at.IsZero() {
		l.Expires = at.Add(time.Duration(max(int32(seconds), 0)) * time.Second)
	}
	return l, nil
}
