package metadata

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ebb-agent/ebb/policy/gc"
)

// object is one in JSON.
type object map[string]any

// deleteOptions says how to delete, and what must not have changed.
func deleteOptions(a gc.Action) any {
	uid := types.UID(a.Object.UID)
	o := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &a.ResourceVersion}}
	if a.NoGrace {
		o.GracePeriodSeconds = new(int64)
	}
	if a.Policy != "" {
		policy := metav1.DeletionPropagation(a.Policy)
		o.PropagationPolicy = &policy
	}
	return o
}

// The API server takes at most 10,000 operations in one patch. Of more than
// maxRefs references some are left for the next: the object as it then is says so.
const maxRefs = 1500

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch begins one that nothing but the object in question passes.
func patch(a gc.Action) []operation {
	return []operation{{"test", "/metadata/uid", a.Object.UID}}
}

// ofReferences is a patch that tests that the references stand where they stood, and then
// does something with each, from the last to the first: what is removed moves those behind it.
func ofReferences(a gc.Action, do func(path string) operation) []operation {
	refs := slices.Clone(a.Refs)
	slices.SortFunc(refs, func(a, b gc.Position) int { return b.Index - a.Index })
	all := patch(a)
	var then []operation
	for _, r := range refs[:min(len(refs), maxRefs)] {
		path := "/metadata/ownerReferences/" + strconv.Itoa(r.Index)
		all = append(all, operation{"test", path + "/uid", r.UID}, operation{"test", path + "/name", r.Name},
			operation{"test", path + "/kind", r.Kind}, operation{"test", path + "/apiVersion", r.APIVersion})
		then = append(then, do(path))
	}
	return append(all, then...)
}

func removeReferences(a gc.Action) any {
	return ofReferences(a, func(path string) operation { return operation{Op: "remove", Path: path} })
}

// unblock sets the field: "add" does, whether it was there or not.
func unblock(a gc.Action) any {
	return ofReferences(a, func(path string) operation { return operation{"add", path + "/blockOwnerDeletion", false} })
}

func removeFinalizer(a gc.Action) any {
	all := patch(a)
	if a.Finalizer == gc.OrphanFinalizer {
		// What its dependents were decided on must not have changed.
		all = append(all, operation{"test", "/metadata/resourceVersion", a.ResourceVersion})
	}
	path := "/metadata/finalizers/" + strconv.Itoa(a.Index)
	return append(all, operation{"test", path, a.Finalizer}, operation{Op: "remove", Path: path})
}

// failPod sets what a controller that counts failures looks at. UID and version in a patch
// are preconditions; conditions are merged by their type.
func failPod(a gc.Action, now time.Time) any {
	status := object{"phase": "Failed"}
	if a.Disrupted {
		status["conditions"] = []object{{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
			"message": "ebb-controller: " + string(a.Reason), "lastTransitionTime": now.UTC().Format(time.RFC3339)}}
	}
	return object{"metadata": object{"uid": a.Object.UID, "resourceVersion": a.ResourceVersion}, "status": status}
}
