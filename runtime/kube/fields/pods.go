package fields

import (
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/policy/pods"
)

// Pod reads a core/v1 Pod into a [pods.Pod].
func Pod(message []byte) (any, error) {
	var r reader
	p := r.parts(message)
	pod := pods.Pod{Created: r.created(p), Node: r.text(p.spec, 10)} // nodeName
	grace, set := r.number(p.metadata, 10)                           // deletionGracePeriodSeconds
	pod.NoGrace = set && grace == 0
	generation, _ := r.number(p.metadata, 7)
	pod.Generation = uint32(min(max(generation, 0), math.MaxUint32))
	r.podStatus(p.status, &pod)
	return r.result(pod)
}

func (r *reader) podStatus(message []byte, pod *pods.Pod) {
	var phase, reason []byte
	endless := false // a container runs, or has no end time
	r.messages(message, func(n protowire.Number, b []byte) {
		switch n {
		case 1: // phase
			phase = b
		case 4: // reason
			reason = b
		case 8, 10, 13: // containerStatuses, initContainerStatuses, ephemeralContainerStatuses
			started, ended := r.container(b)
			endless = endless || started && ended.IsZero()
			if ended.After(pod.Ended) {
				pod.Ended = ended
			}
		}
	})
	if endless {
		pod.Ended = time.Time{}
	}
	pod.Phase, pod.Evicted = phaseName(phase), string(phase) == "Failed" && string(reason) == "Evicted"
}

// container reports from a container's status whether it ever ran, and when it ended. ended is
// zero if the container did not end, or the status has no time.
func (r *reader) container(message []byte) (started bool, ended time.Time) {
	r.messages(message, func(n protowire.Number, b []byte) {
		if n != 2 { // state
			return
		}
		r.messages(b, func(n protowire.Number, b []byte) {
			if started = started || n == 2 || n == 3; n == 3 { // running, terminated
				r.messages(b, func(n protowire.Number, b []byte) {
					if n == 6 { // finishedAt
						ended = r.time(b)
					}
				})
			}
		})
	})
	return started, ended
}

// phaseName returns a phase. A known phase needs no memory of its own.
func phaseName(b []byte) string {
	for _, phase := range [...]string{"Running", "Succeeded", "Failed", "Pending", "Unknown"} {
		if string(b) == phase {
			return phase
		}
	}
	return string(b)
}
