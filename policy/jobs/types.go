package jobs

import "time"

// Job is what the collector wants to know of a Job beside its metadata.
type Job struct {
	TTL      *int32    // spec.ttlSecondsAfterFinished, in seconds; nil: it has none
	Ended    bool      // a condition Complete or Failed is True
	Failed   bool      // the latter is
	Finished time.Time // lastTransitionTime of that condition; zero: it does not say
}
