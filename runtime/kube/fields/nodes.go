package fields

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/policy/pods"
)

// Node reads a core/v1 Node into a [pods.Node].
func Node(message []byte) (any, error) {
	var node pods.Node
	err := messages(message, func(part protowire.Number, b []byte) error {
		return messages(b, func(n protowire.Number, b []byte) error {
			switch {
			case part == 2 && n == 5: // spec.taints
				key, _, err := firstTexts(b)
				node.OutOfService = node.OutOfService || string(key) == "node.kubernetes.io/out-of-service"
				return err
			case part == 3 && n == 4: // status.conditions
				kind, status, err := firstTexts(b)
				node.Ready = node.Ready || string(kind) == "Ready" && string(status) == "True"
				return err
			}
			return nil
		})
	})
	return node, err
}

// firstTexts are the fields 1 and 2: key and value of a taint, type and status of a
// condition.
func firstTexts(message []byte) (one, two []byte, err error) {
	err = messages(message, func(n protowire.Number, b []byte) error {
		switch n {
		case 1:
			one = b
		case 2:
			two = b
		}
		return nil
	})
	return one, two, err
}
