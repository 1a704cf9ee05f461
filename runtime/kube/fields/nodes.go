package fields

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/policy/pods"
	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// Node reads a core/v1 Node into a [pods.Node].
func Node(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	var node pods.Node
	err = pairs(p.spec, 5, func(key, _ []byte) { // taints
		node.OutOfService = node.OutOfService || string(key) == "node.kubernetes.io/out-of-service"
	})
	if err != nil {
		return nil, err
	}
	err = pairs(p.status, 4, func(kind, status []byte) { // conditions
		node.Ready = node.Ready || string(kind) == "Ready" && string(status) == "True"
	})
	if err != nil {
		return nil, err
	}
	return node, nil
}

// pairs calls do with the fields 1 and 2 of each message in a repeated field: key and
// value of a taint, type and status of a condition.
func pairs(message []byte, field protowire.Number, do func(one, two []byte)) error {
	return messages(message, func(n protowire.Number, b []byte) error {
		if n != field {
			return nil
		}
		one, two, err := protobuf.Pair(b, 1, 2)
		if err == nil {
			do(one, two)
		}
		return err
	})
}
