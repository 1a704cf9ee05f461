package metadata

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// body writes JSON. Only strings need care.
type body struct{ b []byte }

func (w *body) raw(s string) *body { w.b = append(w.b, s...); return w }

func (w *body) text(s string) *body {
	if plain(s) {
		w.b = append(append(append(w.b, '"'), s...), '"')
		return w
	}
	quoted, err := json.Marshal(s)
	if err != nil { // not for a string
		quoted = []byte(`""`)
	}
	w.b = append(w.b, quoted...)
	return w
}

func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// deleteOptions says how to delete, and what must not have changed.
func deleteOptions(a gc.Action) []byte {
	w := body{make([]byte, 0, 256)}
	w.raw(`{"apiVersion":"v1","kind":"DeleteOptions"`)
	if a.NoGrace {
		w.raw(`,"gracePeriodSeconds":0`)
	}
	if a.Policy != "" {
		w.raw(`,"propagationPolicy":`).text(string(a.Policy))
	}
	w.raw(`,"preconditions":{"uid":`).text(a.Object.UID).raw(`,"resourceVersion":`).text(a.ResourceVersion)
	return w.raw(`}}`).b
}

// The API server takes at most 10,000 operations in one patch. Of more than
// maxRefs references some are left for the next: the object as it then is says so.
const maxRefs = 1500

// patch begins a JSON patch that nothing but the object in question passes.
func patch(a gc.Action) *body {
	w := &body{make([]byte, 0, 256+400*min(len(a.Refs), maxRefs))}
	return w.raw(`[{"op":"test","path":"/metadata/uid","value":`).text(a.Object.UID).raw(`}`)
}

func (w *body) op(op, path string, i int, field string) *body {
	w.raw(`,{"op":"`).raw(op).raw(`","path":"/metadata/`).raw(path).raw("/")
	w.b = strconv.AppendInt(w.b, int64(i), 10)
	return w.raw(field).raw(`"`)
}

// tested writes that the references stand where they stood, and returns them
// from the last to the first: what is removed moves those behind it.
func (w *body) tested(a gc.Action) []gc.Position {
	refs := slices.Clone(a.Refs)
	slices.SortFunc(refs, func(a, b gc.Position) int { return b.Index - a.Index })
	refs = refs[:min(len(refs), maxRefs)]
	for _, r := range refs {
		for _, f := range [...]struct{ field, value string }{
			{"/uid", r.UID}, {"/name", r.Name}, {"/kind", r.Kind}, {"/apiVersion", r.APIVersion}} {
			w.op("test", "ownerReferences", r.Index, f.field).raw(`,"value":`).text(f.value).raw(`}`)
		}
	}
	return refs
}

func removeReferences(a gc.Action) []byte {
	w := patch(a)
	for _, r := range w.tested(a) {
		w.op("remove", "ownerReferences", r.Index, "").raw(`}`)
	}
	return w.raw(`]`).b
}

// unblock sets the field: "add" does, whether it was there or not.
func unblock(a gc.Action) []byte {
	w := patch(a)
	for _, r := range w.tested(a) {
		w.op("add", "ownerReferences", r.Index, "/blockOwnerDeletion").raw(`,"value":false}`)
	}
	return w.raw(`]`).b
}

func removeFinalizer(a gc.Action) []byte {
	w := patch(a)
	if a.Finalizer == gc.OrphanFinalizer {
		// What its dependents were decided on must not have changed.
		w.raw(`,{"op":"test","path":"/metadata/resourceVersion","value":`).text(a.ResourceVersion).raw(`}`)
	}
	w.op("test", "finalizers", a.Index, "").raw(`,"value":`).text(a.Finalizer).raw(`}`)
	return w.op("remove", "finalizers", a.Index, "").raw(`}]`).b
}

// failPod sets what a controller that counts failures looks at. UID and version in a patch
// are preconditions; conditions are merged by their type.
func failPod(a gc.Action, now time.Time) []byte {
	w := body{make([]byte, 0, 512)}
	w.raw(`{"metadata":{"uid":`).text(a.Object.UID).raw(`,"resourceVersion":`).text(a.ResourceVersion)
	if w.raw(`},"status":{"phase":"Failed"`); !a.Disrupted {
		return w.raw(`}}`).b
	}
	w.raw(`,"conditions":[{"type":"DisruptionTarget","status":"True","reason":"DeletionByPodGC",`)
	w.raw(`"message":`).text("ebb-controller: " + string(a.Reason))
	w.raw(`,"lastTransitionTime":`).text(now.UTC().Format(time.RFC3339))
	return w.raw(`}]}}`).b
}
