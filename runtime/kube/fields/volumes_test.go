package fields_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/volumes"
	"github.com/ebb-agent/ebb/runtime/kube/fields"
)

func aWord(t *rapid.T) string {
	return rapid.SampledFrom([]string{"", "a", "some-name", "é\x01"}).Draw(t, "word")
}

func aVolume(t *rapid.T) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metadata(t)}
	v.Annotations = map[string]string{"a": "b"}
	for _, key := range []string{"pv.kubernetes.io/provisioned-by", "pv.kubernetes.io/migrated-to", "pv.kubernetes.io/bound-by-controller",
		"volume.kubernetes.io/provisioner-deletion-secret-name", "volume.kubernetes.io/provisioner-deletion-secret-namespace"} {
		if rapid.Bool().Draw(t, key) {
			v.Annotations[key] = aWord(t)
		}
	}
	v.Spec = corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: aWord(t),
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimPolicy(aWord(t))}
	if rapid.Bool().Draw(t, "sized") {
		v.Spec.Capacity = corev1.ResourceList{"storage": resource.MustParse("10Gi"), "other": resource.MustParse("7")}
	}
	switch rapid.IntRange(0, 2).Draw(t, "source") {
	case 0:
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: aWord(t), VolumeHandle: aWord(t), FSType: "xfs", VolumeAttributes: map[string]string{"x": "y"},
			NodeStageSecretRef: &corev1.SecretReference{Name: "n", Namespace: "ns"}}
	case 1:
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/data/" + aWord(t)}
	}
	if rapid.Bool().Draw(t, "claimed") {
		v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: aWord(t), Name: aWord(t), UID: "uid", ResourceVersion: "7"}
	}
	v.Status = corev1.PersistentVolumeStatus{Phase: corev1.PersistentVolumePhase(aWord(t)), Message: "m"}
	if at := someTime(t); !at.IsZero() {
		v.Status.LastPhaseTransitionTime = &at
	}
	return v
}

// volumeOf is what should be read.
func volumeOf(v *corev1.PersistentVolume) volumes.Volume {
	var want volumes.Volume
	want.Phase, want.Policy = string(v.Status.Phase), string(v.Spec.PersistentVolumeReclaimPolicy)
	if size, known := v.Spec.Capacity["storage"]; known {
		want.Size = size.String()
	}
	if at := v.Status.LastPhaseTransitionTime; at != nil {
		want.Since = at.Time
	}
	if csi := v.Spec.CSI; csi != nil {
		want.Driver, want.Handle = csi.Driver, csi.VolumeHandle
	} else if b, err := v.Spec.PersistentVolumeSource.Marshal(); err == nil {
		want.Other = string(b)
	}
	if c := v.Spec.ClaimRef; c != nil {
		want.Claim.Namespace, want.Claim.Name, want.Claim.UID = c.Namespace, c.Name, string(c.UID)
	}
	a := v.Annotations
	want.ProvisionedBy, want.MigratedTo = a["pv.kubernetes.io/provisioned-by"], a["pv.kubernetes.io/migrated-to"]
	want.Secret.Name, want.Secret.Namespace = a["volume.kubernetes.io/provisioner-deletion-secret-name"], a["volume.kubernetes.io/provisioner-deletion-secret-namespace"]
	return want
}

// TestStorage: what is read of all that bears on volumes is what it contains.
func TestStorage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := aVolume(t)
		same := func(what string, want any, got any) {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s: %s", what, diff)
			}
		}
		same("volume", volumeOf(v), read(t, v, fields.Volume))
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metadata(t), Spec: corev1.PersistentVolumeClaimSpec{VolumeName: aWord(t)}}
		same("claim", volumes.Claim{Volume: claim.Spec.VolumeName}, read(t, claim, fields.Claim))
		a := &storagev1.VolumeAttachment{ObjectMeta: metadata(t), Spec: storagev1.VolumeAttachmentSpec{Attacher: "x", NodeName: aWord(t)}}
		want := volumes.Attachment{Node: a.Spec.NodeName}
		if rapid.Bool().Draw(t, "inline") {
			a.Spec.Source.InlineVolumeSpec, want.Handle = &v.Spec, volumeOf(v).Handle
		} else {
			name := aWord(t)
			a.Spec.Source.PersistentVolumeName, want.Volume = &name, name
		}
		same("attachment", want, read(t, a, fields.Attachment))
		n := &storagev1.CSINode{ObjectMeta: metadata(t)}
		var drivers volumes.Drivers
		for range rapid.IntRange(0, 3).Draw(t, "drivers") {
			n.Spec.Drivers = append(n.Spec.Drivers, storagev1.CSINodeDriver{Name: aWord(t), NodeID: "id"})
			drivers = append(drivers, n.Spec.Drivers[len(n.Spec.Drivers)-1].Name)
		}
		same("CSINode", drivers, read(t, n, fields.Drivers))
		class := &storagev1.StorageClass{ObjectMeta: metadata(t), Provisioner: aWord(t), Parameters: map[string]string{"provisioner": "x"}}
		same("class", volumes.Class(class.Provisioner), read(t, class, fields.Class))
		secret := &corev1.Secret{ObjectMeta: metadata(t), Data: map[string][]byte{"a": []byte(aWord(t)), "b": {0, 255}}, Type: "t"}
		same("secret", map[string]string{"a": string(secret.Data["a"]), "b": "\x00\xff"}, read(t, secret, fields.Secret))
	})
}

// TestUses: a Pod uses a claim by its name, or one that is made for it.
func TestUses(t *testing.T) {
	p := &corev1.Pod{}
	p.Name = "pod"
	p.Spec.Volumes = []corev1.Volume{
		{Name: "a", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data", ReadOnly: true}}},
		{Name: "b", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "c", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
	}
	for phase, ended := range map[corev1.PodPhase]bool{"": false, corev1.PodRunning: false, corev1.PodPending: false, corev1.PodUnknown: false, corev1.PodSucceeded: true, corev1.PodFailed: true} {
		p.Status.Phase = phase
		u := read(t, p, fields.Uses).(volumes.Uses)
		for _, name := range []string{"data", "pod-c"} {
			if u.Claim(name) == ended {
				t.Errorf("%q: uses %s: %v", phase, name, !ended)
			}
		}
		if u.Claim("b") || u.Claim("pod-b") || u.Claim("") {
			t.Errorf("%+v", u)
		}
	}
}

func FuzzVolume(f *testing.F) {
	v := &corev1.PersistentVolume{Status: corev1.PersistentVolumeStatus{Phase: "Released", LastPhaseTransitionTime: &some}}
	v.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "d"}
	v.Spec.PersistentVolumeReclaimPolicy = "Delete"
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "n", UID: "u"}
	message, err := v.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	fuzz(f, message, fields.Volume, func(t *testing.T, got any, message []byte) {
		var v corev1.PersistentVolume
		if !written(&v, message) {
			return
		}
		if diff := cmp.Diff(volumeOf(&v), got); diff != "" {
			t.Error(diff)
		}
	})
}

// FuzzStorage: whatever is read, nothing panics.
func FuzzStorage(f *testing.F) {
	name := "pv"
	for _, o := range []marshaler{
		&corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "v"}}, &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "d"}}}},
		&storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}},
		&storagev1.StorageClass{Provisioner: "p"}, &corev1.Secret{Data: map[string][]byte{"a": {1}}},
		&corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}}},
	} {
		message, err := o.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message)
		f.Add(message[:len(message)-1])
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		for _, with := range []func([]byte) (any, error){fields.Claim, fields.Attachment, fields.Drivers, fields.Class, fields.Uses, fields.Secret} {
			if got, err := with(message); (err == nil) == (got == nil) {
				t.Errorf("%v, %v", got, err)
			}
		}
	})
}
