package fields

import "github.com/ebb-agent/ebb/policy/pods"

// Node reads a core/v1 Node into a [pods.Node].
func Node(message []byte) (any, error) {
	var r reader
	p := r.parts(message)
	var node pods.Node
	r.pairs(p.spec, 5, func(key, _ []byte) { // taints
		node.OutOfService = node.OutOfService || string(key) == "node.kubernetes.io/out-of-service"
	})
	r.pairs(p.status, 4, func(kind, status []byte) { // conditions
		node.Ready = node.Ready || string(kind) == "Ready" && string(status) == "True"
	})
	return r.result(node)
}
