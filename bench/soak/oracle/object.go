package oracle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// MarkAnnotation is changed by each patch of a client.
	MarkAnnotation = "soak.example.com/op"
	// Hold is the prefix of foreign finalizers: those of another controller than ebb.
	Hold = "soak.example.com/"

	foregroundFinalizer = "foregroundDeletion"
	orphanFinalizer     = "orphan"
)

// Owner is an owner reference.
type Owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Block      bool   `json:"blockOwnerDeletion"`
}

// Object is one version of a stored object.
type Object struct {
	Key, APIVersion, Kind, Namespace, Name, UID string

	Owners      []Owner
	Finalizers  []string
	Terminating bool
	Mark        string
	Outside     bool // outside etcd: in another API server
	// Due is when a collector may delete the object, as far as its own fields show: see [Decode].
	// Zero: these fields alone give no reason.
	Due time.Time

	Created time.Time // of Pods: the order of their deletion
	Phase   string    // of Pods
	Grace   int64     // seconds; of Pods that are being deleted, and not by force
	Node    string    // to which it is bound, or whose Lease or CSINode it is
	Holder  string    // of a Lease
	Volume  string    // of a VolumeAttachment: the PersistentVolume
	Expires time.Time // of Leases
	Tainted bool      // Nodes with the taint OutOfService

	since   map[string]time.Time // owners that are blocked, and since when
	written time.Time            // last write
}

// Decode reads an object as an API server stores it with
// --storage-media-type=application/json. Its Due is
//   - of a Job the end of its TTL; of a Pod that succeeded PodsAfter later;
//   - of a CertificateSigningRequest RequestsAfter its first answer, or its creation, unless its signer is PatientSigner;
//   - of a Node without a machine NodesAfter its creation, unless it is ready;
//   - of a Lease of an election ElectionsAfter its expiry;
//   - of a PersistentVolume of Driver VolumesAfter its release.
func Decode(key string, value []byte) (*Object, error) {
	var in struct {
		APIVersion, Kind string
		Metadata         struct {
			Name, Namespace, UID       string
			CreationTimestamp          time.Time
			DeletionTimestamp          *string
			DeletionGracePeriodSeconds int64
			Finalizers                 []string
			OwnerReferences            []Owner
			Annotations, Labels        map[string]string
		}
		Spec   spec
		Status status
	}
	if err := json.Unmarshal(value, &in); err != nil {
		return nil, fmt.Errorf("decode %s: %w", key, err)
	}
	m := in.Metadata
	x := &Object{Key: key, APIVersion: in.APIVersion, Kind: in.Kind, Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		Owners: m.OwnerReferences, Finalizers: m.Finalizers, Terminating: m.DeletionTimestamp != nil, Mark: m.Annotations[MarkAnnotation]}
	x.Created, x.Grace, x.Phase, x.Node = m.CreationTimestamp, m.DeletionGracePeriodSeconds, in.Status.Phase, in.Spec.NodeName
	switch x.Kind {
	case "Job":
		if after := in.Spec.TTLSecondsAfterFinished; after != nil {
			x.Due = in.Status.finished(time.Duration(*after) * time.Second)
		}
	case "Pod":
		x.Due = in.Status.succeeded(PodsAfter)
	case "CertificateSigningRequest":
		at := m.CreationTimestamp
		for i, c := range in.Status.Conditions {
			if i == 0 || c.LastUpdateTime.Before(at) {
				at = c.LastUpdateTime
			}
		}
		if in.Spec.SignerName != PatientSigner {
			x.Due = at.Add(RequestsAfter)
		}
	case "Node":
		ready := slices.ContainsFunc(in.Status.Conditions, func(c condition) bool { return c.Type == "Ready" && c.Status == "True" })
		if m.Labels[RetiredLabel] == NoMachine && !ready {
			x.Due = m.CreationTimestamp.Add(NodesAfter)
		}
		x.Tainted = !ready && slices.ContainsFunc(in.Spec.Taints, func(t taint) bool { return t.Key == OutOfService })
	case "Lease":
		x.Holder, x.Expires = in.Spec.HolderIdentity, in.Spec.RenewTime.Add(time.Duration(in.Spec.LeaseDurationSeconds)*time.Second)
		if x.Namespace == nodeLeases {
			x.Node = x.Name
		} else {
			x.Due = x.Expires.Add(ElectionsAfter)
		}
	case "CSINode":
		x.Node = x.Name
	case "VolumeAttachment":
		x.Volume = in.Spec.Source.PersistentVolumeName
	case "PersistentVolume":
		own := m.Annotations["pv.kubernetes.io/provisioned-by"] == in.Spec.CSI.Driver && in.Spec.CSI.Driver == Driver
		foreign := slices.ContainsFunc(m.Finalizers, func(f string) bool { return f != ProvisionerFinalizer && f != "kubernetes.io/pv-protection" })
		if own && !foreign && x.Phase == "Released" && in.Spec.PersistentVolumeReclaimPolicy == "Delete" {
			x.Due = in.Status.LastPhaseTransitionTime.Add(VolumesAfter)
		}
	}
	return x, nil
}

// spec has fields of all types that have a collector.
type spec struct {
	TTLSecondsAfterFinished       *int32
	NodeName, SignerName          string
	HolderIdentity                string
	RenewTime                     time.Time
	LeaseDurationSeconds          int32
	PersistentVolumeReclaimPolicy string
	Source                        struct{ PersistentVolumeName string }
	CSI                           struct{ Driver string }
	Taints                        []taint
}

type taint struct{ Key string }

type condition struct {
	Type, Status                       string
	LastTransitionTime, LastUpdateTime time.Time
}

// status has fields of all types that have a collector.
type status struct {
	Phase                   string
	LastPhaseTransitionTime time.Time
	Conditions              []condition
	ContainerStatuses       []struct {
		State struct {
			Terminated struct{ FinishedAt time.Time }
		}
	}
}

// finished returns the time that is after later than a Job's end; zero if it has not ended.
func (s status) finished(after time.Duration) time.Time {
	for _, c := range s.Conditions {
		if (c.Type == "Complete" || c.Type == "Failed") && c.Status == "True" {
			return c.LastTransitionTime.Add(after)
		}
	}
	return time.Time{}
}

// succeeded returns the time that is after later than a Pod's end; zero if it did not succeed.
func (s status) succeeded(after time.Duration) time.Time {
	if s.Phase != "Succeeded" || len(s.ContainerStatuses) == 0 {
		return time.Time{}
	}
	return s.ContainerStatuses[0].State.Terminated.FinishedAt.Add(after)
}

// before reports whether o comes before p in the order in which ended Pods are deleted.
func (o *Object) before(p *Object) bool {
	return cmp.Or(o.Created.Compare(p.Created), strings.Compare(o.Name, p.Name), strings.Compare(o.Namespace, p.Namespace)) < 0
}

func (o *Object) String() string {
	return fmt.Sprintf("%s %s/%s (%s)", o.Kind, o.Namespace, o.Name, o.UID)
}

func (o *Object) has(finalizer string) bool { return slices.Contains(o.Finalizers, finalizer) }

// waiting reports whether the object is being deleted in the foreground.
func (o *Object) waiting() bool { return o.Terminating && o.has(foregroundFinalizer) }

// orphaning reports whether the object is being deleted while its dependents stay.
func (o *Object) orphaning() bool { return o.Terminating && o.has(orphanFinalizer) }

// held returns the foreign finalizers.
func (o *Object) held() (names []string) {
	for _, f := range o.Finalizers {
		if strings.HasPrefix(f, Hold) {
			names = append(names, f)
		}
	}
	return names
}

// place is where an object is, whatever version a reference to it names.
type place struct{ group, kind, namespace, name string }

func (o *Object) place() place { return place{groupOf(o.APIVersion), o.Kind, o.Namespace, o.Name} }

// blocks reports whether the reference r of d blocks the deletion of o.
func (r Owner) blocks(d, o *Object) bool {
	return r.Block && r.UID == o.UID && r.Kind == o.Kind && r.Name == o.Name && groupOf(r.APIVersion) == groupOf(o.APIVersion) &&
		(o.Namespace == "" || o.Namespace == d.Namespace)
}

func groupOf(apiVersion string) string {
	if group, _, ok := strings.Cut(apiVersion, "/"); ok {
		return group
	}
	return ""
}
