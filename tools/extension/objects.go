package extension

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mostBody bounds a request's body, in bytes.
const mostBody = 4 << 20

func (s *Server) status(t Type, name string, code int, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code),
		Reason: reason, Message: message, Details: &metav1.StatusDetails{Name: name, Group: s.config.Group, Kind: t.Resource}}
}

// silent waits while the fault Silent is set. It returns false if the client is gone.
func (s *Server) silent(r *http.Request) (goOn bool) {
	for {
		s.mu.Lock()
		is, changed := s.faults&Silent != 0 && !s.closed, s.changed
		s.mu.Unlock()
		if !is {
			return r.Context().Err() == nil
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return false
		}
	}
}

// one handles requests for one object.
func (s *Server) one(w http.ResponseWriter, r *http.Request, t Type) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	s.note(r.Method + " " + t.Resource + " " + namespace + "/" + name)
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
	if err != nil || !s.silent(r) {
		return
	}
	var code int
	var out any
	s.change(func() {
		o := s.objects[place{t.Resource, namespace, name}]
		if o == nil || s.faults&NotFound != 0 {
			code, out = http.StatusNotFound, s.status(t, name, http.StatusNotFound, metav1.StatusReasonNotFound, t.Resource+" "+strconv.Quote(name)+" not found")
			return
		}
		switch r.Method {
		case http.MethodGet:
			code, out = http.StatusOK, s.document(t.Resource, o, s.readVersion(o))
		case http.MethodDelete:
			code, out = s.delete(t, o, body)
		case http.MethodPatch, http.MethodPut:
			code, out = s.update(t, o, r.Method, body)
		default:
			code, out = http.StatusMethodNotAllowed, s.status(t, name, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, r.Method)
		}
	})
	answer(w, code, out)
}

// readVersion returns the version of an object that a GET shows.
func (s *Server) readVersion(o *Object) uint64 {
	v := s.versions[o]
	if s.faults&LowerVersions != 0 && v > lowerBy {
		return v - lowerBy
	}
	return v
}

// delete handles preconditions, the propagation policy and finalizers as the kube-apiserver
// does.
func (s *Server) delete(t Type, o *Object, body []byte) (int, any) {
	var options metav1.DeleteOptions
	if len(body) > 0 && json.Unmarshal(body, &options) != nil {
		return http.StatusBadRequest, s.status(t, o.Name, http.StatusBadRequest, metav1.StatusReasonBadRequest, "no DeleteOptions")
	}
	if p := options.Preconditions; p != nil && s.faults&NoPreconditions == 0 {
		version := strconv.FormatUint(s.readVersion(o), 10)
		listed := strconv.FormatUint(s.versions[o], 10)
		if p.UID != nil && string(*p.UID) != o.UID || p.ResourceVersion != nil && *p.ResourceVersion != version && *p.ResourceVersion != listed {
			return http.StatusConflict, s.status(t, o.Name, http.StatusConflict, metav1.StatusReasonConflict, "a precondition does not hold")
		}
	}
	c := o.clone()
	c.Deleting = true
	if p := options.PropagationPolicy; p != nil {
		c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool {
			return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
		})
		switch *p {
		case metav1.DeletePropagationOrphan:
			c.Finalizers = append(c.Finalizers, metav1.FinalizerOrphanDependents)
		case metav1.DeletePropagationForeground:
			c.Finalizers = append(c.Finalizers, metav1.FinalizerDeleteDependents)
		}
	}
	return http.StatusOK, s.store(t, c)
}

// store stores a changed object. It removes the object if it is being deleted and has no
// finalizers left.
func (s *Server) store(t Type, c Object) any {
	o := s.put(t.Resource, c, !c.gone())
	out := s.document(t.Resource, o, s.versions[o])
	if c.gone() {
		s.drop(t.Resource, o, true)
	}
	return out
}

func (o *Object) gone() bool { return o.Deleting && len(o.Finalizers) == 0 }

// applyPatch applies a JSON patch (RFC 6902) to a document.
func applyPatch(document any, patch []byte) ([]byte, error) {
	data, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, fmt.Errorf("no JSON patch: %w", err)
	}
	return operations.Apply(data)
}

// update handles PATCH, with a JSON patch, and PUT, with a whole object. It changes owners and
// finalizers only.
func (s *Server) update(t Type, o *Object, method string, body []byte) (int, any) {
	before := s.document(t.Resource, o, s.versions[o])
	after := body
	if method == http.MethodPatch {
		patched, err := applyPatch(before, body)
		if err != nil {
			return http.StatusUnprocessableEntity, s.status(t, o.Name, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, err.Error())
		}
		after = patched
	}
	var in metav1.PartialObjectMetadata
	if err := json.Unmarshal(after, &in); err != nil {
		return http.StatusBadRequest, s.status(t, o.Name, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	if in.ResourceVersion != "" && in.ResourceVersion != before.ResourceVersion || string(in.UID) != o.UID && in.UID != "" {
		return http.StatusConflict, s.status(t, o.Name, http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified")
	}
	c := o.clone()
	c.Owners, c.Finalizers = in.OwnerReferences, in.Finalizers
	return http.StatusOK, s.store(t, c)
}

// create handles POST.
func (s *Server) create(w http.ResponseWriter, r *http.Request, t Type) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody))
	if err != nil || !s.silent(r) {
		return
	}
	var in metav1.PartialObjectMetadata
	if err := json.Unmarshal(body, &in); err != nil || in.Name == "" {
		answer(w, http.StatusBadRequest, s.status(t, in.Name, http.StatusBadRequest, metav1.StatusReasonBadRequest, "no object with a name"))
		return
	}
	var code int
	var out any
	s.change(func() {
		at := place{t.Resource, r.PathValue("namespace"), in.Name}
		if s.objects[at] != nil {
			code, out = http.StatusConflict, s.status(t, in.Name, http.StatusConflict, metav1.StatusReasonAlreadyExists, "it exists")
			return
		}
		code, out = http.StatusCreated, s.store(t, Object{Namespace: at.namespace, Name: in.Name, UID: s.newUID(), Owners: in.OwnerReferences, Finalizers: in.Finalizers})
	})
	answer(w, code, out)
}
