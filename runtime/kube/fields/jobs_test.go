package fields_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/jobs"
	"github.com/ebb-agent/ebb/runtime/kube/fields"
)

type marshaler interface{ Marshal() ([]byte, error) }

// read what Kubernetes' own type writes.
func read(t interface{ Fatal(...any) }, o marshaler, with func([]byte) (any, error)) any {
	message, err := o.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := with(message)
	if err != nil {
		t.Fatal(err)
	}
	clear(message) // it is valid during the call only
	return got
}

var some = metav1.NewTime(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))

// someTime is a moment as objects have it, or none.
func someTime(t *rapid.T) metav1.Time {
	if rapid.Bool().Draw(t, "no time") {
		return metav1.Time{}
	}
	return metav1.NewTime(time.Unix(rapid.Int64Range(-1<<35, 1<<37).Draw(t, "time"), 0).UTC())
}

func metadata(t *rapid.T) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: rapid.String().Draw(t, "name"), Labels: map[string]string{"a": "b", "z": "b"}, CreationTimestamp: someTime(t),
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Time: &some}},
	}
}

func aJob(t *rapid.T) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metadata(t)}
	j.Spec = batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}}
	if rapid.Bool().Draw(t, "TTL") {
		ttl := rapid.Int32().Draw(t, "seconds")
		j.Spec.TTLSecondsAfterFinished = &ttl
	}
	for range rapid.IntRange(0, 4).Draw(t, "conditions") {
		j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
			Type:          rapid.SampledFrom([]batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed, batchv1.JobSuspended, batchv1.JobSuccessCriteriaMet}).Draw(t, "type"),
			Status:        rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown, ""}).Draw(t, "status"),
			LastProbeTime: someTime(t), LastTransitionTime: someTime(t), Reason: "r", Message: "m",
		})
	}
	return j
}

// TestNamespace: what is read of a Namespace are its labels.
func TestNamespace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &corev1.Namespace{ObjectMeta: metadata(t)}
		n.Labels = rapid.MapOf(rapid.StringN(1, -1, 63), rapid.String()).Draw(t, "labels")
		n.Status.Phase = corev1.NamespaceActive
		if diff := cmp.Diff(any(jobs.Namespace{Labels: n.Labels}), read(t, n, fields.Namespace)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzNamespace(f *testing.F) {
	message, err := (&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	fuzz(f, message, fields.Namespace, func(t *testing.T, got any, message []byte) {
		var n corev1.Namespace
		if have := got.(jobs.Namespace); written(&n, message) && len(n.Labels) != len(have.Labels) {
			t.Errorf("labels %v, not %v", have.Labels, n.Labels)
		}
	})
}

// TestJob: what is read of a Job is what it contains.
func TestJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := aJob(t)
		want := jobs.Job{TTL: j.Spec.TTLSecondsAfterFinished}
		for i := len(j.Status.Conditions) - 1; i >= 0; i-- { // the first is the last to count
			c := j.Status.Conditions[i]
			if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
				want.Ended, want.Finished = true, c.LastTransitionTime.Time
			}
		}
		if diff := cmp.Diff(any(want), read(t, j, fields.Job)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzJob(f *testing.F) {
	ttl := int32(5)
	message, err := (&batchv1.Job{
		Spec:   batchv1.JobSpec{TTLSecondsAfterFinished: &ttl},
		Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: some}}},
	}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	fuzz(f, message, fields.Job, func(t *testing.T, got any, message []byte) {
		var j batchv1.Job
		if !written(&j, message) {
			return
		}
		job := got.(jobs.Job)
		if want := j.Spec.TTLSecondsAfterFinished; (want == nil) != (job.TTL == nil) || want != nil && *want != *job.TTL {
			t.Errorf("the TTL is %v, not %v", job.TTL, want)
		}
		ended := false
		for _, c := range j.Status.Conditions {
			ended = ended || c.Status == "True" && (c.Type == "Complete" || c.Type == "Failed")
		}
		if ended != job.Ended {
			t.Errorf("ended: %v", job.Ended)
		}
	})
}

// written reports whether Kubernetes writes a message so: it takes others, too, with fields in
// another order, twice, or unknown.
func written(o interface {
	marshaler
	Unmarshal([]byte) error
}, message []byte) bool {
	if o.Unmarshal(message) != nil {
		return false
	}
	again, err := o.Marshal()
	return err == nil && bytes.Equal(again, message)
}

// fuzz a decoder, from a message and from what is left when it is cut short.
func fuzz(f *testing.F, message []byte, with func([]byte) (any, error), check func(*testing.T, any, []byte)) {
	f.Add(message)
	f.Add(message[:len(message)-1])
	f.Fuzz(func(t *testing.T, message []byte) {
		got, err := with(message)
		if (err == nil) == (got == nil) {
			t.Fatalf("%v with %v", got, err)
		}
		if err == nil {
			check(t, got, message)
		}
	})
}

// TestCutShort: a message that ends too soon is an error, or it ends between two fields.
func TestCutShort(t *testing.T) {
	ttl := int32(100)
	job := &batchv1.Job{Spec: batchv1.JobSpec{TTLSecondsAfterFinished: &ttl}}
	message, err := job.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	errors := 0
	for n := range message {
		got, err := fields.Job(message[:n])
		if err != nil {
			errors++
		} else if got.(jobs.Job).TTL != nil {
			t.Logf("%d bytes of %d have it all", n, len(message))
		}
	}
	if errors < len(message)/2 {
		t.Errorf("%d errors in %d", errors, len(message))
	}
}
