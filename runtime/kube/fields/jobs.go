package fields

import "github.com/ebb-agent/ebb/policy/jobs"

// Namespace reads a core/v1 Namespace into a [jobs.Namespace].
func Namespace(message []byte) (any, error) {
	var r reader
	n := jobs.Namespace{Labels: map[string]string{}}
	r.pairs(r.parts(message).metadata, 11, func(key, value []byte) { n.Labels[string(key)] = string(value) })
	return r.result(n)
}

// Job reads a batch/v1 Job into a [jobs.Job].
func Job(message []byte) (any, error) {
	var r reader
	p := r.parts(message)
	var job jobs.Job
	if v, set := r.number(p.spec, 8); set { // ttlSecondsAfterFinished
		ttl := int32(v)
		job.TTL = &ttl
	}
	r.conditions(p.status, conditions{status: 2, at: 4}, func(c condition) { // lastTransitionTime
		if !job.Ended && string(c.status) == "True" && (string(c.kind) == "Complete" || string(c.kind) == "Failed") {
			job.Ended, job.Finished = true, c.at
		}
	})
	return r.result(job)
}
