package fields

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/policy/pods"
	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// Pod reads a core/v1 Pod into a [pods.Pod].
func Pod(message []byte) (any, error) {
	var pod pods.Pod
	var node []byte
	err := messages(message, func(n protowire.Number, b []byte) error {
		switch n {
		case 1: // metadata
			return podMetadata(b, &pod)
		case 2: // spec
			return messages(b, func(n protowire.Number, b []byte) error {
				if n == 10 { // nodeName
					node = b
				}
				return nil
			})
		case 3: // status
			return podStatus(b, &pod)
		}
		return nil
	})
	pod.Node = string(node)
	return pod, err
}

func podMetadata(message []byte, pod *pods.Pod) error {
	var created []byte
	grace := int64(-1)
	err := protobuf.Each(message, func(n protowire.Number, t protowire.Type, b []byte) int {
		switch n {
		case 8: // creationTimestamp
			return protobuf.Take(t, b, &created)
		case 10: // deletionGracePeriodSeconds
			return protobuf.Int(t, b, &grace)
		}
		return 0
	})
	if err == nil {
		pod.Created, err = protobuf.Time(created)
	}
	pod.NoGrace = grace == 0
	return err
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

// messages calls do for each field that is a message or a text.
func messages(message []byte, do func(n protowire.Number, b []byte) error) error {
	var first error
	err := protobuf.Each(message, func(n protowire.Number, t protowire.Type, b []byte) int {
		var m []byte
		size := protobuf.Take(t, b, &m)
		if size > 0 && first == nil {
			first = do(n, m)
		}
		return size
	})
	if err == nil {
		err = first
	}
	return err
}
