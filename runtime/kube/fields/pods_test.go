package fields_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ebb-agent/ebb/policy/pods"
	"github.com/ebb-agent/ebb/runtime/kube/fields"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func stamp(t time.Time) metav1.Time { return metav1.NewTime(t) }

func ended(at time.Time) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "c", Image: "i", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", StartedAt: stamp(noon.Add(-time.Hour)), FinishedAt: stamp(at)}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: stamp(at.Add(time.Hour))}}}
}

func runs() corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func waits() corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
}

// TestPod reads what Kubernetes' own types write.
func TestPod(t *testing.T) {
	statuses := func(s ...corev1.ContainerStatus) []corev1.ContainerStatus { return s }
	seconds := func(s int64) *int64 { return &s }
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want pods.Pod
	}{
		"nothing": {},
		"running": {
			corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p", CreationTimestamp: stamp(noon), Generation: 3, Annotations: map[string]string{"a": "b"}},
				Spec:       corev1.PodSpec{NodeName: "n", Hostname: "other", ServiceAccountName: "s"},
				Status:     corev1.PodStatus{Phase: corev1.PodRunning, Message: "m", ContainerStatuses: statuses(runs())},
			}, pods.Pod{Phase: "Running", Node: "n", Created: noon, Generation: 3}},
		"a phase of tomorrow": {corev1.Pod{Status: corev1.PodStatus{Phase: "Resting"}}, pods.Pod{Phase: "Resting"}},
		"the last container counts": {
			corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded, InitContainerStatuses: statuses(ended(noon.Add(-2))),
				ContainerStatuses: statuses(ended(noon), ended(noon.Add(time.Minute)), ended(noon.Add(time.Second)))}},
			pods.Pod{Phase: "Succeeded", Ended: noon.Add(time.Minute)}},
		"a sidecar ends later": {
			corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded, InitContainerStatuses: statuses(ended(noon.Add(time.Minute))),
				ContainerStatuses: statuses(ended(noon))}},
			pods.Pod{Phase: "Succeeded", Ended: noon.Add(time.Minute)}},
		"init failed": {
			corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: statuses(ended(noon)), ContainerStatuses: statuses(waits())}},
			pods.Pod{Phase: "Failed", Ended: noon}},
		"lost while it ran": {
			corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: statuses(ended(noon), runs())}},
			pods.Pod{Phase: "Failed"}},
		"ended at no time": {
			corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: statuses(ended(noon), ended(time.Time{}))}},
			pods.Pod{Phase: "Failed"}},
		"evicted":                   {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}}, pods.Pod{Phase: "Failed", Evicted: true}},
		"evicted, but not failed":   {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, Reason: "Evicted"}}, pods.Pod{Phase: "Running"}},
		"failed otherwise":          {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeLost"}}, pods.Pod{Phase: "Failed"}},
		"deleted":                   {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: seconds(30)}}, pods.Pod{}},
		"deleted by force":          {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: seconds(0)}}, pods.Pod{NoGrace: true}},
		"created before the epoch":  {corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: stamp(time.Unix(-5, 0))}}, pods.Pod{Created: time.Unix(-5, 0).UTC()}},
		"an ephemeral one ran last": {corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: statuses(ended(noon)), EphemeralContainerStatuses: statuses(ended(noon.Add(1e9)))}}, pods.Pod{Ended: noon.Add(1e9)}},
	} {
		b, err := test.pod.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		got, err := fields.Pod(b)
		if got != test.want || err != nil {
			t.Errorf("%s: %+v, %v, not %+v", name, got, err, test.want)
		}
		clear(b) // nothing of it is kept
		if got != test.want {
			t.Errorf("%s: it shares the message's memory", name)
		}
	}
}

func TestNode(t *testing.T) {
	condition := func(kind corev1.NodeConditionType, s corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: s, Reason: "r", LastHeartbeatTime: stamp(noon)}
	}
	for name, test := range map[string]struct {
		node corev1.Node
		want pods.Node
	}{
		"nothing": {},
		"ready": {corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			condition("MemoryPressure", "False"), condition("Ready", "True"), condition("DiskPressure", "False")}}}, pods.Node{Ready: true}},
		"not ready":      {corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{condition("Ready", "False")}}}, pods.Node{}},
		"nobody knows":   {corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{condition("Ready", "Unknown"), condition("NetworkUnavailable", "True")}}}, pods.Node{}},
		"out of service": {corev1.Node{Spec: corev1.NodeSpec{ProviderID: "p", Taints: []corev1.Taint{{Key: "a", Value: "b"}, {Key: "node.kubernetes.io/out-of-service", Effect: "NoExecute"}}}}, pods.Node{OutOfService: true}},
		"that as a value": {corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a", Value: "node.kubernetes.io/out-of-service"}}},
			Status: corev1.NodeStatus{Phase: "Ready"}}, pods.Node{}},
	} {
		b, err := test.node.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := fields.Node(b); got != test.want || err != nil {
			t.Errorf("%s: %+v, %v, not %+v", name, got, err, test.want)
		}
	}
}

// FuzzPod: whatever comes, it ends, and what both read they read alike.
func FuzzPod(f *testing.F) {
	for _, p := range []corev1.Pod{{}, {ObjectMeta: metav1.ObjectMeta{CreationTimestamp: stamp(noon)}, Spec: corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{Phase: "Failed", Reason: "Evicted", ContainerStatuses: []corev1.ContainerStatus{ended(noon)}}}} {
		b, err := p.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, 2<<3|2, 0)) // an empty piece of the spec
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := fields.Pod(b)
		var theirs corev1.Pod
		if theirs.Unmarshal(b) != nil || err != nil {
			return
		}
		if p := got.(pods.Pod); p.Phase != string(theirs.Status.Phase) || p.Node != theirs.Spec.NodeName {
			t.Errorf("%+v, not %+v", p, theirs)
		}
	})
}

func FuzzNode(f *testing.F) {
	n := corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k"}}}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True"}}}}
	b, err := n.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := fields.Node(b)
		var theirs corev1.Node
		if theirs.Unmarshal(b) != nil || err != nil {
			return
		}
		for _, taint := range theirs.Spec.Taints {
			if taint.Key == corev1.TaintNodeOutOfService && !got.(pods.Node).OutOfService {
				t.Errorf("the taint is not seen in %+v", theirs)
			}
		}
	})
}
