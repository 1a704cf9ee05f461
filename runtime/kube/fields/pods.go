package fields

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/policy/pods"
	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// Pod reads a core/v1 Pod into a [pods.Pod].
func Pod(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	var pod pods.Pod
	if pod.Created, err = p.created(); err != nil {
		return nil, err
	}
	if pod.NoGrace, err = noGrace(p.metadata); err != nil {
		return nil, err
	}
	node, err := take(p.spec, 10) // nodeName
	if err != nil {
		return nil, err
	}
	pod.Node = string(node)
	if err := podStatus(p.status, &pod); err != nil {
		return nil, err
	}
	return pod, nil
}

// noGrace says that metadata.deletionGracePeriodSeconds is there, and 0.
func noGrace(metadata []byte) (bool, error) {
	grace := int64(-1)
	err := protobuf.Each(metadata, func(n protowire.Number, t protowire.Type, b []byte) int {
		if n != 10 {
			return 0
		}
		return protobuf.Int(t, b, &grace)
	})
	return grace == 0, err
}

func podStatus(message []byte, pod *pods.Pod) error {
	var phase, reason []byte
	endless := false // a container has not ended, or does not say when it did
	err := messages(message, func(n protowire.Number, b []byte) error {
		switch n {
		case 1: // phase
			phase = b
		case 4: // reason
			reason = b
		case 8, 10, 13: // containerStatuses, initContainerStatuses, ephemeralContainerStatuses
			started, ended, err := container(b)
			endless = endless || started && ended.IsZero()
			if ended.After(pod.Ended) {
				pod.Ended = ended
			}
			return err
		}
		return nil
	})
	if endless {
		pod.Ended = time.Time{}
	}
	pod.Phase, pod.Evicted = phaseName(phase), string(phase) == "Failed" && string(reason) == "Evicted"
	return err
}

// container says of a container's status whether it ever ran, and when it ended; zero
// if it did not, or it does not say.
func container(message []byte) (started bool, ended time.Time, err error) {
	err = messages(message, func(n protowire.Number, b []byte) error {
		if n != 2 { // state
			return nil
		}
		return messages(b, func(n protowire.Number, b []byte) error {
			if started = started || n == 2 || n == 3; n != 3 { // running, terminated
				return nil
			}
			return messages(b, func(n protowire.Number, b []byte) error {
				if n != 6 { // finishedAt
					return nil
				}
				ended, err = protobuf.Time(b)
				return err
			})
		})
	})
	return started, ended, err
}

// phaseName is a phase without memory of its own, if it is one of those there are.
func phaseName(b []byte) string {
	for _, phase := range [...]string{"Running", "Succeeded", "Failed", "Pending", "Unknown"} {
		if string(b) == phase {
			return phase
		}
	}
	return string(b)
}
