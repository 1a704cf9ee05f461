// Package jobs collects Jobs that have finished, as the TTL-after-finished controller of the
// kube-controller-manager does. A Job is deleted when spec.ttlSecondsAfterFinished have
// passed since its condition Complete or Failed became True. Config may have a TTL for Jobs
// that have none.
//
// A decision rests on one version of one Job, and the Delete has that version as its
// precondition. So a Job whose TTL is extended just before its deletion is kept. A missing or
// negative value, or a wrong clock, never causes a deletion before the TTL has passed.
//
// Nothing is deleted before Jobs were listed once, so that the longest overdue Jobs are
// deleted first, or while Jobs cannot be read.
package jobs
