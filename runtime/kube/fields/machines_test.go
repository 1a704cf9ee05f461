package fields_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/runtime/kube/fields"
)

// TestNodeLife: what is read of a Node is what it contains.
func TestNodeLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &corev1.Node{ObjectMeta: metadata(t)}
		want := nodes.Node{Created: n.CreationTimestamp.Time, Since: n.CreationTimestamp.Time, Labels: []string{"a=b", "z=b"}}
		n.Spec.ProviderID = rapid.SampledFrom([]string{"", "metal://rack/1"}).Draw(t, "id")
		want.ProviderID = n.Spec.ProviderID
		for range rapid.IntRange(0, 3).Draw(t, "taints") {
			key := rapid.SampledFrom([]string{"k", "", corev1.TaintNodeOutOfService}).Draw(t, "key")
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: "v", Effect: "NoExecute", TimeAdded: &some})
			want.Taints = append(want.Taints, key+"=v")
			want.OutOfService = want.OutOfService || key == corev1.TaintNodeOutOfService
		}
		for _, kind := range rapid.Permutation([]corev1.NodeConditionType{"Ready", "MemoryPressure", "KernelDeadlock"}).Draw(t, "conditions")[rapid.IntRange(0, 3).Draw(t, "of them"):] {
			c := corev1.NodeCondition{Type: kind, Status: rapid.SampledFrom([]corev1.ConditionStatus{"True", "False", "Unknown", ""}).Draw(t, "status"),
				LastHeartbeatTime: someTime(t), LastTransitionTime: someTime(t), Reason: "Ready", Message: "True"}
			n.Status.Conditions = append(n.Status.Conditions, c)
			if c.LastHeartbeatTime.Time.After(want.Heard) {
				want.Heard = c.LastHeartbeatTime.Time
			}
			if kind != "Ready" {
				continue
			}
			want.Ready = c.Status == "True"
			if at := c.LastTransitionTime.Time; at.IsZero() || at.After(want.Since) {
				want.Since = at
			}
		}
		switch rapid.IntRange(0, 3).Draw(t, "volumes") {
		case 1:
			n.Status.VolumesInUse, want.Volumes = []corev1.UniqueVolumeName{"kubernetes.io/csi/d^h"}, true
		case 2:
			n.Status.VolumesAttached, want.Volumes = []corev1.AttachedVolume{{Name: "kubernetes.io/csi/d^h", DevicePath: "p"}}, true
		}
		n.Status.Images = []corev1.ContainerImage{{Names: []string{"Ready", "True"}}}
		got := read(t, n, fields.NodeLife).(nodes.Node)
		slices.Sort(got.Labels)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestNodeWithoutTimes: a Node whose conditions have no times has no such time.
func TestNodeWithoutTimes(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: some}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "False"}}}}
	if got := read(t, n, fields.NodeLife).(nodes.Node); !got.Since.IsZero() || !got.Created.Equal(some.Time) {
		t.Errorf("%+v", got)
	}
}

func TestAttachedTo(t *testing.T) {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: "n"}}
	if got := read(t, a, fields.AttachedTo); got != (nodes.Attachment{Node: "n"}) {
		t.Errorf("%+v", got)
	}
}

func FuzzNodeLife(f *testing.F) {
	message, err := (&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"k": "v"}, CreationTimestamp: some},
		Spec:       corev1.NodeSpec{ProviderID: "p", Taints: []corev1.Taint{{Key: "k", Value: "v"}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "False", LastHeartbeatTime: some, LastTransitionTime: metav1.NewTime(some.Add(-time.Hour))}},
			VolumesInUse: []corev1.UniqueVolumeName{"v"}, VolumesAttached: []corev1.AttachedVolume{{Name: "v"}}},
	}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	fuzz(f, message, fields.NodeLife, func(t *testing.T, got any, message []byte) {
		var n corev1.Node
		if !written(&n, message) {
			return
		}
		have, ready := got.(nodes.Node), false
		for _, c := range n.Status.Conditions {
			ready = ready || c.Type == "Ready" && c.Status == "True"
			if c.LastHeartbeatTime.After(have.Heard) {
				t.Errorf("the heartbeat at %v is not heard in %+v", c.LastHeartbeatTime, have)
			}
		}
		if have.Ready != ready || have.Volumes != (len(n.Status.VolumesInUse)+len(n.Status.VolumesAttached) > 0) ||
			len(have.Labels) != len(n.Labels) || len(have.Taints) != len(n.Spec.Taints) || have.ProviderID != n.Spec.ProviderID {
			t.Errorf("%+v is read of %+v", have, n)
		}
	})
}

func FuzzAttachedTo(f *testing.F) {
	message, err := (&storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: "n"}}).Marshal()
	if err != nil {
		f.Fatal(err)
	}
	fuzz(f, message, fields.AttachedTo, func(t *testing.T, got any, message []byte) {
		var a storagev1.VolumeAttachment
		if written(&a, message) && got.(nodes.Attachment).Node != a.Spec.NodeName {
			t.Errorf("%+v is read of %+v", got, a)
		}
	})
}
