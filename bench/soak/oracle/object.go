package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// MarkAnnotation is changed by each client's own patch.
	MarkAnnotation = "soak.example.com/op"
	// Hold is the finalizer of others: all that begin with it.
	Hold = "soak.example.com/"

	// PodsAfter is how long Pods that ended are kept.
	PodsAfter = 30 * time.Second

	foregroundFinalizer = "foregroundDeletion"
	orphanFinalizer     = "orphan"
)

// Owner is a reference.
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
	Outside     bool // of etcd: in another API server
	// Due is when it goes because it has ended: a Job by its TTL, a Pod PodsAfter its
	// container's end. Zero: never.
	Due time.Time

	since map[string]time.Time // owners that are blocked, and since when
}

// Decode reads an object as an API server stores it with
// --storage-media-type=application/json.
func Decode(key string, value []byte) (*Object, error) {
	var in struct {
		APIVersion, Kind string
		Metadata         struct {
			Name, Namespace, UID string
			DeletionTimestamp    *string
			Finalizers           []string
			OwnerReferences      []Owner
			Annotations          map[string]string
		}
		Spec   struct{ TTLSecondsAfterFinished *int32 }
		Status status
	}
	if err := json.Unmarshal(value, &in); err != nil {
		return nil, fmt.Errorf("decode %s: %w", key, err)
	}
	m := in.Metadata
	x := &Object{Key: key, APIVersion: in.APIVersion, Kind: in.Kind, Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		Owners: m.OwnerReferences, Finalizers: m.Finalizers, Terminating: m.DeletionTimestamp != nil, Mark: m.Annotations[MarkAnnotation]}
	switch {
	case x.APIVersion == "batch/v1" && x.Kind == "Job" && in.Spec.TTLSecondsAfterFinished != nil:
		x.Due = in.Status.finished(time.Duration(*in.Spec.TTLSecondsAfterFinished) * time.Second)
	case x.APIVersion == "v1" && x.Kind == "Pod":
		x.Due = in.Status.ended(PodsAfter)
	}
	return x, nil
}

// status of a Pod or a Job.
type status struct {
	Phase      string
	Conditions []struct {
		Type, Status       string
		LastTransitionTime time.Time
	}
	ContainerStatuses []struct {
		State struct {
			Terminated struct{ FinishedAt time.Time }
		}
	}
}

// finished is so long after a Job's end; zero if it has none.
func (s status) finished(after time.Duration) time.Time {
	for _, c := range s.Conditions {
		if (c.Type == "Complete" || c.Type == "Failed") && c.Status == "True" {
			return c.LastTransitionTime.Add(after)
		}
	}
	return time.Time{}
}

// ended is so long after a Pod's end; zero if it has none.
func (s status) ended(after time.Duration) time.Time {
	if s.Phase != "Succeeded" && s.Phase != "Failed" || len(s.ContainerStatuses) == 0 {
		return time.Time{}
	}
	return s.ContainerStatuses[0].State.Terminated.FinishedAt.Add(after)
}

// isDue says whether it goes because it has ended.
func (o *Object) isDue(now time.Time) bool { return !o.Due.IsZero() && !now.Before(o.Due) }

func (o *Object) String() string {
	return fmt.Sprintf("%s %s/%s (%s)", o.Kind, o.Namespace, o.Name, o.UID)
}

func (o *Object) has(finalizer string) bool { return slices.Contains(o.Finalizers, finalizer) }

// waiting is being deleted in the foreground.
func (o *Object) waiting() bool { return o.Terminating && o.has(foregroundFinalizer) }

// orphaning is being deleted, and its dependents are to be left.
func (o *Object) orphaning() bool { return o.Terminating && o.has(orphanFinalizer) }

// held are the finalizers of others.
func (o *Object) held() (names []string) {
	for _, f := range o.Finalizers {
		if strings.HasPrefix(f, Hold) {
			names = append(names, f)
		}
	}
	return names
}

// place is where an object is, whatever the version that names it.
type place struct{ group, kind, namespace, name string }

func (o *Object) place() place { return place{groupOf(o.APIVersion), o.Kind, o.Namespace, o.Name} }

// blocks says whether a reference of d holds o.
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
