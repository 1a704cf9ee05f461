// Package jobs collects Jobs that have finished, as the TTL-after-finished controller of
// the kube-controller-manager does: a Job goes when spec.ttlSecondsAfterFinished have
// passed since its condition Complete or Failed became True. Config may have a TTL for
// Jobs that have none.
//
// A decision rests on one version of one Job, and the Delete has that version as its
// precondition: who makes the TTL longer just before the end keeps the Job. What is
// missing, negative or of another clock never has a Job go earlier than its TTL says.
//
// Nothing is asked for before Jobs were listed once, so that those due longest go first,
// nor while they cannot be read.
package jobs
