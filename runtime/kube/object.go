package kube

import (
	"bytes"
	"encoding/json"
	"unique"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// The annotations by which the kubelet marks static and mirror pods
// (pkg/kubelet/types/pod_update.go).
const (
	annotationHash   = "kubernetes.io/config.hash"
	annotationMirror = "kubernetes.io/config.mirror"
)

// object has the fields that are read from a pod's JSON. The decoder skips everything else.
type object struct {
	Kind       string `json:"kind"` // not in the items of a list
	APIVersion string `json:"apiVersion"`

	Metadata struct {
		Name              string      `json:"name"`
		Namespace         string      `json:"namespace"`
		UID               string      `json:"uid"`
		ResourceVersion   string      `json:"resourceVersion"`
		DeletionTimestamp *string     `json:"deletionTimestamp"`
		Annotations       annotations `json:"annotations"`
	} `json:"metadata"`

	Spec struct {
		NodeName            string      `json:"nodeName"`
		InitContainers      []container `json:"initContainers"`
		Containers          []container `json:"containers"`
		EphemeralContainers []container `json:"ephemeralContainers"`
		Volumes             []struct {
			Image *struct {
				Reference string `json:"reference"`
			} `json:"image"`
		} `json:"volumes"`
	} `json:"spec"`

	Status struct {
		Phase  string `json:"phase"`
		Reason string `json:"reason"`
	} `json:"status"`
}

type container struct {
	Image string `json:"image"`
}

// annotations keeps two of a pod's annotations. It is not a plain struct, because users write the
// keys and encoding/json ignores case when it matches the names of struct fields.
type annotations struct {
	hash   string
	mirror bool
}

func (a *annotations) UnmarshalJSON(b []byte) error {
	*a = annotations{}
	// Most pods have neither annotation, but may have a manifest of many kilobytes here. If an
	// encoder escaped the letters of a key, a mirror pod would only look like a normal pod. Its
	// static pod is then unknown, which does no harm.
	if !bytes.Contains(b, []byte(annotationMirror)) {
		return nil
	}
	var all map[string]string
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	_, a.mirror = all[annotationMirror]
	a.hash = all[annotationHash]
	return nil
}

// item is a pod as it was read, with the fields that only this package needs.
type item struct {
	Pod
	ownUID string // metadata.uid: differs from Pod.UID for a mirror pod
	node   string
}

// item validates o, and reduces it to what is needed. A pod without a valid identity does not
// come from Kubernetes, so nothing else of the answer can be trusted.
func (o *object) item() (item, error) {
	m := &o.Metadata
	if !validName(m.UID) || !validName(m.Namespace) || !validName(m.Name) {
		return item{}, fault.Nonsense("a pod named %s/%s with the UID %s",
			fault.Clean(m.Namespace), fault.Clean(m.Name), fault.Clean(m.UID))
	}
	it := item{
		Pod: Pod{
			UID: m.UID, Namespace: m.Namespace, Name: m.Name,
			Deleting: m.DeletionTimestamp != nil,
			Ended:    o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed",
			Evicted:  o.Status.Phase == "Failed" && o.Status.Reason == "Evicted",
			Images:   o.images(),
		},
		ownUID: m.UID,
		node:   o.Spec.NodeName,
	}
	// The hash alone proves nothing: any user can write it into a pod, which
	// would hide the UID that the containers of that pod carry.
	if m.Annotations.mirror && validName(m.Annotations.hash) {
		it.UID = m.Annotations.hash
	}
	return it, nil
}

// named is item for an object that must have its kind and apiVersion.
func (o *object) named() (item, error) {
	if o.Kind != "Pod" || o.APIVersion != "v1" {
		return item{}, fault.Nonsense("kind %s %s, not a v1 Pod", fault.Clean(o.APIVersion), fault.Clean(o.Kind))
	}
	return o.item()
}

// images collects the references, in the order of the spec.
func (o *object) images() []string {
	var refs []string
	seen := make(map[string]bool)
	add := func(ref string) {
		if ref == "" || len(ref) > maxReference || seen[ref] {
			return
		}
		seen[ref] = true
		// Many pods run the same image; each text is kept once.
		refs = append(refs, unique.Make(ref).Value())
	}
	for _, list := range [][]container{
		o.Spec.InitContainers, o.Spec.Containers, o.Spec.EphemeralContainers,
	} {
		for _, c := range list {
			add(c.Image)
		}
	}
	for _, v := range o.Spec.Volumes {
		if v.Image != nil {
			add(v.Image.Reference)
		}
	}
	return refs
}
