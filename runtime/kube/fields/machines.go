package fields

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// NodeLife reads a core/v1 Node into a [nodes.Node].
func NodeLife(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	var n nodes.Node
	if n.Created, err = p.created(); err != nil {
		return nil, err
	}
	n.Since = n.Created
	err = pairs(p.metadata, 11, func(key, value []byte) { // labels
		n.Labels = append(n.Labels, string(key)+"="+string(value))
	})
	if err != nil {
		return nil, err
	}
	err = pairs(p.spec, 5, func(key, value []byte) { // taints
		n.Taints = append(n.Taints, string(key)+"="+string(value))
		n.OutOfService = n.OutOfService || string(key) == "node.kubernetes.io/out-of-service"
	})
	if err != nil {
		return nil, err
	}
	id, err := take(p.spec, 3) // providerID
	if err != nil {
		return nil, err
	}
	n.ProviderID = string(id)
	if err := nodeStatus(p.status, &n); err != nil {
		return nil, err
	}
	return n, nil
}

func nodeStatus(message []byte, n *nodes.Node) error {
	return messages(message, func(field protowire.Number, b []byte) error {
		switch field {
		case 4: // conditions
			return nodeCondition(b, n)
		case 9, 10: // volumesInUse, volumesAttached
			n.Volumes = true
		}
		return nil
	})
}

// nodeCondition notes whether a Node is ready, and when somebody last said how it is. Of a
// condition that is there twice, what is later counts, and ready is who is so once.
func nodeCondition(message []byte, n *nodes.Node) error {
	c, err := conditions{status: 2, at: 4}.read(message) // lastTransitionTime
	if err != nil {
		return err
	}
	beat, err := heartbeat(message)
	if err != nil {
		return err
	}
	if beat.After(n.Heard) {
		n.Heard = beat
	}
	if string(c.kind) != "Ready" {
		return nil
	}
	n.Ready = n.Ready || string(c.status) == "True"
	if c.at.IsZero() || c.at.After(n.Since) {
		n.Since = c.at
	}
	return nil
}

func heartbeat(condition []byte) (time.Time, error) {
	at, err := take(condition, 3)
	if err != nil {
		return time.Time{}, err
	}
	return protobuf.Time(at)
}

// AttachedTo reads a storage.k8s.io/v1 VolumeAttachment into a [nodes.Attachment].
func AttachedTo(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	node, err := take(p.spec, 3) // nodeName
	if err != nil {
		return nil, err
	}
	return nodes.Attachment{Node: string(node)}, nil
}
