package main

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestFirstDay: each Job is followed by its Pods, which refer to it, and no name is there twice.
func TestFirstDay(t *testing.T) {
	names, jobs, pods := map[string]bool{}, 0, 0
	var job *batchv1.Job
	for o := range firstDay(30) {
		switch o := o.(type) {
		case *batchv1.Job:
			job = o
			jobs++
			names["job "+o.Namespace+"/"+o.Name] = true
		case *corev1.Pod:
			pods++
			names["pod "+o.Namespace+"/"+o.Name] = true
			if r := o.OwnerReferences; len(r) != 1 || r[0].UID != job.UID || o.Namespace != job.Namespace || !*r[0].BlockOwnerDeletion {
				t.Errorf("%s/%s belongs to %+v", o.Namespace, o.Name, r)
			}
		}
	}
	if got := fmt.Sprint(jobs, pods, len(names)); got != "30 60 90" {
		t.Errorf("Jobs, Pods and names: %s", got)
	}
}
