package fields

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/policy/jobs"
	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// Namespace reads a core/v1 Namespace into a [jobs.Namespace].
func Namespace(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	n := jobs.Namespace{Labels: map[string]string{}}
	if err := pairs(p.metadata, 11, func(key, value []byte) { n.Labels[string(key)] = string(value) }); err != nil {
		return nil, err
	}
	return n, nil
}

// Job reads a batch/v1 Job into a [jobs.Job].
func Job(message []byte) (any, error) {
	p, err := split(message)
	if err != nil {
		return nil, err
	}
	var job jobs.Job
	err = protobuf.Each(p.spec, func(n protowire.Number, t protowire.Type, b []byte) int {
		if n != 8 { // ttlSecondsAfterFinished
			return 0
		}
		var v int64
		size := protobuf.Int(t, b, &v)
		if size > 0 {
			ttl := int32(v)
			job.TTL = &ttl
		}
		return size
	})
	if err != nil {
		return nil, err
	}
	err = conditions{status: 2, at: 4}.each(p.status, func(c condition) { // lastTransitionTime
		if !job.Ended && string(c.status) == "True" && (string(c.kind) == "Complete" || string(c.kind) == "Failed") {
			job.Ended, job.Finished = true, c.at
		}
	})
	if err != nil {
		return nil, err
	}
	return job, nil
}
