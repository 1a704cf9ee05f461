package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/tools/peers"
)

// podsOfJob is how many Pods a Job of the first day has.
const podsOfJob = 2

// measureFirstDay measures how long cascades take on the first day of the collector of Jobs, as shipped: with
// envelopes and circuit breaker, and with many Jobs that have long been due. It measures at once and when the
// collector has used its half of the circuit breaker's window. The circuit breaker must stay closed.
func measureFirstDay(ctx context.Context, b *fixture, f figures) error {
	if err := b.Fill(ctx, firstDay(b.firstDay)); err != nil {
		return err
	}
	var err error
	if b.audited, err = b.CP.SkipAudit(b.audited); err != nil {
		return err
	}
	c, jobs := b.Ebb.Shipped(b.collectors(map[string]any{"jobs": map[string]any{"mode": "enforce"}})), kinds[1]
	return c.Run(ctx, func(int) error {
		if err := b.cascades(ctx, f, "first_day"); err != nil {
			return err
		}
		if err := benchmark.Pause(ctx, b.later); err != nil {
			return err
		}
		if err := b.cascades(ctx, f, "first_day_later"); err != nil {
			return err
		}
		went, err := b.listen(ctx, c, jobs, 1)
		if err != nil {
			return err
		}
		benchmark.Say("%d of %d Jobs went meanwhile", len(went.deleted), b.firstDay)
		open, err := peers.Metric(ctx, http.DefaultClient, "http://"+b.Ebb.Address, "ebb_controller_circuit_breaker_open")
		if err == nil && open != 0 {
			err = errors.New("the backlog of Jobs opened the circuit breaker")
		}
		return err
	})
}

// firstDay yields n Jobs, each with its Pods.
func firstDay(n int) func(yield func(runtime.Object) bool) {
	long := time.Now().Add(-24 * time.Hour)
	return func(yield func(runtime.Object) bool) {
		for i := range n {
			j := job(i, long).(*batchv1.Job)
			j.Name = fmt.Sprintf("first-day-%08d", i)
			of := j.Spec.Template.Labels // the API server refuses each update of a Job with another name there
			of[batchv1.JobNameLabel], of["job-name"] = j.Name, j.Name
			if !yield(j) {
				return
			}
			for k := range podsOfJob {
				p := pod(i, long).(*corev1.Pod)
				p.Name = fmt.Sprint(j.Name, "-", k)
				p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(j, batchv1.SchemeGroupVersion.WithKind("Job"))}
				if !yield(p) {
					return
				}
			}
		}
	}
}
