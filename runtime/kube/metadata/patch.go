package metadata

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ebb-agent/ebb/policy/gc"
)

// object is a JSON object.
type object map[string]any

// deleteOptions returns how to delete, with UID and resourceVersion as preconditions.
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

// maxRefs is how many references one patch changes. The API server accepts at most 10,000
// operations in one patch. Further references are left for the next patch: the object in the
// response still has them.
const maxRefs = 1500

// operation is one operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch begins a JSON patch with a test of the UID, so that it changes no other object.
func patch(a gc.Action) []operation {
	return []operation{{"test", "/metadata/uid", a.Object.UID}}
}

// ofReferences returns a patch that tests that the references are still at their indexes, and
// then applies do to each. It goes from the last to the first, because a removal shifts the
// references behind it.
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

// unblock sets blockOwnerDeletion to false. "add" does that whether the field exists or not.
func unblock(a gc.Action) any {
	return ofReferences(a, func(path string) operation { return operation{"add", path + "/blockOwnerDeletion", false} })
}

func removeFinalizer(a gc.Action) any {
	all := patch(a)
	if a.Finalizer == gc.OrphanFinalizer {
		// The object must not have changed since the decision about its dependents.
		all = append(all, operation{"test", "/metadata/resourceVersion", a.ResourceVersion})
	}
	path := "/metadata/finalizers/" + strconv.Itoa(a.Index)
	return append(all, operation{"test", path, a.Finalizer}, operation{Op: "remove", Path: path})
}

// failPod sets what controllers that count failures read. UID and version in a patch are
// preconditions; conditions are merged by their type.
func failPod(a gc.Action, now time.Time) any {
	status := object{"phase": "Failed"}
	if a.Disrupted {
		status["conditions"] = []object{{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
			"message": "ebb-controller: " + string(a.Reason), "lastTransitionTime": now.UTC().Format(time.RFC3339)}}
	}
	if a.Generation > 0 { // API servers before 1.33 set none (KEP-5067)
		status["observedGeneration"] = a.Generation
		if a.Disrupted {
			status["conditions"].([]object)[0]["observedGeneration"] = a.Generation
		}
	}
	return object{"metadata": object{"uid": a.Object.UID, "resourceVersion": a.ResourceVersion}, "status": status}
}
