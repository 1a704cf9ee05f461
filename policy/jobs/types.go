package jobs

import (
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// Job is what the collector wants to know of a Job beside its metadata.
type Job struct {
	TTL      *int32    // spec.ttlSecondsAfterFinished, in seconds; nil: it has none
	Ended    bool      // a condition Complete or Failed is True
	Finished time.Time // lastTransitionTime of the first such condition; zero: it does not say
}

// Config says which Jobs are collected.
type Config struct {
	// Namespaces in which Jobs are collected. Empty: in all.
	Namespaces gc.Patterns
	// Defaults are TTLs for Jobs that have neither a TTL nor an owner. The first that
	// names the Job's namespace counts.
	Defaults []Default
}

// Default is a TTL for Jobs of some namespaces: of those that Namespaces names, and that
// Selects takes by their labels.
type Default struct {
	Namespaces gc.Patterns                         // empty: all
	Selects    func(labels map[string]string) bool // nil: all
	After      time.Duration                       // since the Job finished. Not above zero: none
}

// Namespace is what the collector wants to know of a Namespace beside its metadata.
type Namespace struct {
	Labels map[string]string // not shared with the message
}

// Name is the collector's.
const Name gc.Collector = "jobs"

// Why a Job goes, be that later.
const (
	TTL        gc.Reason = "ttl_after_finished"
	DefaultTTL gc.Reason = "default_ttl_after_finished"
	// FinishedInFuture: the same, and it finished later than the API server's clock
	// shows. Its TTL counts from there.
	FinishedInFuture gc.Reason = "finished_in_the_future"
)

// Why a Job is kept.
const (
	Running           gc.Reason = "not_finished"
	NoTTL             gc.Reason = "no_ttl"
	InvalidTTL        gc.Reason = "invalid_ttl" // it is negative
	FinishTimeMissing gc.Reason = "finish_time_missing"
	Terminating       gc.Reason = "terminating" // deleted already; others hold it
	OtherNamespace    gc.Reason = "namespace_not_selected"
	Unread            gc.Reason = "type_not_read" // Jobs were not listed, or cannot be read now
	// NamespaceUnread: which default TTL it has hangs on its namespace's labels, which are
	// not known up to now.
	NamespaceUnread gc.Reason = "namespace_not_read"
)
