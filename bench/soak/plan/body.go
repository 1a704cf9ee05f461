package plan

import (
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/bench/soak/oracle"
)

// leaseTime is the format of a Lease's renewTime.
const leaseTime = "2006-01-02T15:04:05.000000Z07:00"

// Body returns the object that a Create makes, without its owners. at is the time of creation. The
// differences between objects of a kind follow from the slot's ID.
func (o Op) Body(at time.Time) map[string]any {
	type object = map[string]any
	k, id := o.Slot.Kind, o.Slot.ID
	metadata, annotations := object{"name": o.Slot.Name}, object{oracle.MarkAnnotation: fmt.Sprint(o.N)}
	metadata["annotations"] = annotations
	var finalizers []string
	if k.Namespaced {
		metadata["namespace"] = o.Slot.Namespace
	}
	body := object{"apiVersion": k.APIVersion(0), "kind": k.Kind, "metadata": metadata}
	pod := object{"containers": []any{object{"name": "c", "image": "i"}}}
	labels := object{"app": "soak"}
	switch k.Kind {
	case "Pod":
		if o.Node != "" {
			pod["nodeName"] = o.Node
		}
		body["spec"] = pod
	case "Job":
		pod["restartPolicy"] = "Never"
		body["spec"] = object{"ttlSecondsAfterFinished": int(JobTTL / time.Second), "template": object{"spec": pod}}
	case "ReplicaSet":
		body["spec"] = object{"replicas": 0, "selector": object{"matchLabels": labels}, "template": object{"metadata": object{"labels": labels}, "spec": pod}}
	case "Node":
		switch {
		case o.Slot.NoMachine():
			metadata["labels"] = object{oracle.RetiredLabel: oracle.NoMachine}
		case id%16 == 1:
			metadata["labels"] = object{oracle.RetiredLabel: "in-the-inventory"}
		case id%8 == 2:
			body["spec"] = object{"taints": []object{{"key": oracle.OutOfService, "effect": "NoExecute"}}}
		case id%4 == 3:
			body["status"] = object{"conditions": []object{{"type": "Ready", "status": "True", "lastTransitionTime": at.UTC().Format(time.RFC3339)}}}
		}
	case "VolumeAttachment":
		body["spec"] = object{"attacher": "csi.example.com", "nodeName": o.Node, "source": object{"persistentVolumeName": o.Volume}}
	case "CSINode":
		body["spec"] = object{"drivers": []object{}}
	case "PersistentVolume":
		driver, policy := oracle.Driver, "Delete"
		switch id % 8 {
		case 0:
			driver = "other.csi.example.com"
		case 1:
			policy = "Retain"
		}
		annotations["pv.kubernetes.io/provisioned-by"] = driver
		finalizers = append(finalizers, oracle.ProvisionerFinalizer)
		body["spec"] = object{"capacity": object{"storage": "1Mi"}, "accessModes": []string{"ReadWriteOnce"}, "persistentVolumeReclaimPolicy": policy,
			"csi":      object{"driver": driver, "volumeHandle": "volume-" + o.Slot.Name},
			"claimRef": object{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "soak-0", "name": o.Slot.Name, "uid": "0a0a0a0a-0000-4000-8000-000000000000"}}
	case "Lease":
		spec := object{"leaseDurationSeconds": 1, "renewTime": at.UTC().Format(leaseTime)}
		if id%3 == 0 {
			spec["leaseDurationSeconds"] = 24 * 3600
		}
		if o.Holder != "" {
			spec["holderIdentity"] = o.Holder
		}
		body["spec"] = spec
	case "CertificateSigningRequest":
		spec := object{"request": []byte(request), "signerName": "example.com/soak", "usages": []string{"client auth"}}
		if id%3 == 0 {
			spec["signerName"] = oracle.PatientSigner
		}
		body["spec"] = spec
	}
	if o.Hold {
		finalizers = append(finalizers, oracle.Hold+"hold")
	}
	metadata["finalizers"] = finalizers
	return body
}

// request is a certificate request. Its key was thrown away.
const request = `-----BEGIN CERTIFICATE REQUEST-----
MIG7MGICAQAwADBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABNYGnhgjHqHT4DMn
x06B6Fita2BP//AFWP+o57dOplmPpJNqMGM8MZrNb/OG7EBpVs2o50lkSlS1CZ/u
ZTBSAs2gADAKBggqhkjOPQQDAgNJADBGAiEAg8PzMHT79WITLFnhKokvxsmRUuFw
GMcHNN3p8lKdCj4CIQChCvhCeUv2Ps+LO0w7nGkz87Tk12yd+bvPqEr+bMpOMg==
-----END CERTIFICATE REQUEST-----
`

// Change is a merge patch of an object's subresource; "": of the object itself.
type Change struct {
	Subresource string
	Patch       map[string]any
}

// Changes returns what a Finish writes, in order. now is when it ends; certificate, in PEM, is for requests.
func (o Op) Changes(now time.Time, certificate []byte) []Change {
	type object = map[string]any
	at := now.UTC().Format(time.RFC3339)
	status := func(s object) Change { return Change{"/status", object{"status": s}} }
	answer := func(kind string) object {
		return object{"status": object{"conditions": []object{{"type": kind, "status": "True", "reason": "Soak", "lastUpdateTime": at}}}}
	}
	switch o.Slot.Kind.Kind {
	case "Pod":
		s := object{"phase": "Succeeded", "containerStatuses": []object{{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
			"state": object{"terminated": object{"exitCode": 0, "startedAt": at, "finishedAt": at}}}}}
		if o.Way%2 == 0 {
			s["phase"] = "Failed"
		}
		return []Change{status(s)}
	case "Job":
		first, last := "SuccessCriteriaMet", "Complete"
		s := object{"startTime": at, "completionTime": at}
		if o.Way%3 == 0 {
			first, last = "FailureTarget", "Failed"
			delete(s, "completionTime")
		}
		s["conditions"] = []object{{"type": first, "status": "True", "lastTransitionTime": at}, {"type": last, "status": "True", "lastTransitionTime": at}}
		return []Change{status(s)}
	case "CertificateSigningRequest":
		switch o.Way % 4 {
		case 0:
			return []Change{{"/approval", answer("Denied")}}
		case 1:
			return []Change{{"/status", answer("Failed")}}
		case 2:
			return []Change{{"/approval", answer("Approved")}}
		}
		return []Change{{"/approval", answer("Approved")}, status(object{"certificate": certificate})}
	case "PersistentVolume":
		since := now.Add(-oracle.VolumesAfter)
		if o.Way%3 == 0 {
			since = now
		}
		return []Change{status(object{"phase": "Released", "lastPhaseTransitionTime": since.UTC().Format(time.RFC3339)})}
	default:
		return []Change{{"", object{"spec": object{"renewTime": now.UTC().Format(leaseTime)}}}}
	}
}
