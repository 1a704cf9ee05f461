package fields

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/policy/pods"
)

// NodeLife reads a core/v1 Node into a [nodes.Node].
func NodeLife(message []byte) (any, error) {
	var r reader
	p := r.parts(message)
	n := nodes.Node{Created: r.created(p), ProviderID: r.text(p.spec, 3)}
	n.Since = n.Created
	r.pairs(p.metadata, 11, func(key, value []byte) { // labels
		n.Labels = append(n.Labels, string(key)+"="+string(value))
	})
	r.pairs(p.spec, 5, func(key, value []byte) { // taints
		n.Taints = append(n.Taints, string(key)+"="+string(value))
		n.OutOfService = n.OutOfService || string(key) == "node.kubernetes.io/out-of-service"
	})
	r.messages(p.status, func(field protowire.Number, b []byte) {
		switch field {
		case 4: // conditions
			r.nodeCondition(b, &n)
		case 9, 10: // volumesInUse, volumesAttached
			n.Volumes = true
		}
	})
	return r.result(n)
}

// nodeCondition notes whether a Node is ready and since when, and when its conditions were last
// updated. If a condition occurs twice, the later time counts, and one that is True makes the
// Node ready.
func (r *reader) nodeCondition(message []byte, n *nodes.Node) {
	c := r.condition(message, conditions{status: 2, at: 4}) // lastTransitionTime
	if beat := r.time(r.take(message, 3)); beat.After(n.Heard) {
		n.Heard = beat
	}
	if string(c.kind) != "Ready" {
		return
	}
	n.Ready = n.Ready || string(c.status) == "True"
	if c.at.IsZero() || c.at.After(n.Since) {
		n.Since = c.at
	}
}

// AttachedTo reads a storage.k8s.io/v1 VolumeAttachment into a [nodes.Attachment].
func AttachedTo(message []byte) (any, error) {
	var r reader
	return r.result(nodes.Attachment{Node: r.text(r.parts(message).spec, 3)}) // nodeName
}

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
