package jobs

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Job has the fields of a Job that the collector needs beside its metadata.
type Job struct {
	TTL      *int32    // spec.ttlSecondsAfterFinished, in seconds; nil: not set
	Ended    bool      // a condition Complete or Failed is True
	Finished time.Time // lastTransitionTime of the first such condition; zero: not set
}

// Config configures which Jobs are collected.
type Config struct {
	// Namespaces are those in which Jobs are collected. Empty: all.
	Namespaces gc.Patterns
	// Defaults are TTLs for Jobs that have neither a TTL nor an owner. The first that matches
	// the Job's namespace counts.
	Defaults []Default
}

// Default is a TTL for the Jobs of some namespaces: those that Namespaces names and whose
// labels Selects accepts.
type Default struct {
	Namespaces gc.Patterns                         // empty: all
	Selects    func(labels map[string]string) bool // nil: all
	After      time.Duration                       // after the Job finished. 0 or less: no TTL
}

// Namespace has the fields of a Namespace that the collector needs beside its metadata.
type Namespace struct {
	Labels map[string]string // not shared with the message
}

// Name is the collector's name.
const Name gc.Collector = "jobs"

// Reasons to delete a Job, now or later.
const (
	TTL        gc.Reason = "ttl_after_finished"
	DefaultTTL gc.Reason = "default_ttl_after_finished"
	// FinishedInFuture: it has a TTL, and it finished later than the API server's clock
	// shows. The TTL counts from that time.
	FinishedInFuture gc.Reason = "finished_in_the_future"
)

// Reasons to keep a Job.
const (
	Running           gc.Reason = "not_finished"
	NoTTL             gc.Reason = "no_ttl"
	InvalidTTL        gc.Reason = "invalid_ttl" // it is negative
	FinishTimeMissing gc.Reason = "finish_time_missing"
	Terminating       gc.Reason = "terminating" // already deleted; finalizers hold it
	OtherNamespace    gc.Reason = "namespace_not_selected"
	Unread            gc.Reason = "type_not_read" // Jobs were not listed, or cannot be read now
	// NamespaceUnread: its default TTL depends on its namespace's labels, which are not known
	// at present.
	NamespaceUnread gc.Reason = "namespace_not_read"
)
