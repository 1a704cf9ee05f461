package extension

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// collection handles requests for a collection of a type.
func (s *Server) collection(w http.ResponseWriter, r *http.Request, t Type) {
	q := r.URL.Query()
	watches := q.Get("watch") == "true" || q.Get("watch") == "1"
	what := r.Method
	switch {
	case r.Method == http.MethodGet && watches:
		what = "WATCH"
	case r.Method == http.MethodGet:
		what = "LIST"
	}
	s.note(what + " " + t.Resource)
	switch {
	case r.Method == http.MethodPost:
		s.create(w, r, t)
		return
	case !s.silent(r):
		return
	case r.Method == http.MethodDelete:
		s.deleteAll(w, r, t)
	case watches:
		s.watch(w, r, t, q)
	default:
		s.list(w, r, t, q)
	}
}

func (s *Server) deleteAll(w http.ResponseWriter, r *http.Request, t Type) {
	s.change(func() {
		for _, o := range s.sorted(t.Resource, r.PathValue("namespace")) {
			s.delete(t, o, nil)
		}
	})
	answer(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
}

// list answers with one page. Pages are ordered by namespace and name, and each shows the state
// at its own time.
func (s *Server) list(w http.ResponseWriter, r *http.Request, t Type, q url.Values) {
	out := metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{}}
	out.SetGroupVersionKind(s.groupVersion().WithKind(t.Kind + "List"))
	limit, _ := strconv.Atoi(q.Get("limit"))
	s.mu.Lock()
	greatest := uint64(1)
	for _, o := range s.listed(t, r.PathValue("namespace")) {
		greatest = max(greatest, s.versions[o])
		key := o.Namespace + "/" + o.Name
		if from := q.Get("continue"); key <= from && from != "" {
			continue
		}
		if limit > 0 && len(out.Items) >= limit {
			last := out.Items[len(out.Items)-1]
			out.Continue = last.Namespace + "/" + last.Name
			break
		}
		out.Items = append(out.Items, s.document(t.Resource, o, s.versions[o]))
	}
	out.ResourceVersion = strconv.FormatUint(s.version, 10)
	if s.faults&ListVersionOfItems != 0 {
		out.ResourceVersion = strconv.FormatUint(greatest, 10)
	}
	if s.faults&NoListVersion != 0 {
		out.ResourceVersion = ""
	}
	if s.faults&NoUID != 0 && out.Continue == "" {
		out.Items = append(out.Items, s.withoutUID(t))
	}
	s.mu.Unlock()
	answer(w, http.StatusOK, out)
}

// listed returns the objects that lists and watches show. The lock must be held.
func (s *Server) listed(t Type, namespace string) []*Object {
	if s.faults&EmptyLists != 0 {
		return nil
	}
	return s.sorted(t.Resource, namespace)
}

func (s *Server) withoutUID(t Type) metav1.PartialObjectMetadata {
	o := Object{Name: WithoutUID}
	if !t.Cluster {
		o.Namespace = "default"
	}
	return s.document(t.Resource, &o, s.version)
}

// watching is one running watch.
type watching struct {
	s         *Server
	t         Type
	namespace string
	out       http.ResponseWriter
	encoder   *json.Encoder
	from      uint64 // last version sent
	restarts  int
	initial   bool // sendInitialEvents
	bookmarks bool
	endless   bool // never sends the end bookmark
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, t Type, q url.Values) {
	version := q.Get("resourceVersion")
	from, _ := strconv.ParseUint(version, 10, 64)
	me := &watching{s: s, t: t, namespace: r.PathValue("namespace"), out: w, encoder: json.NewEncoder(w), from: from,
		initial: q.Get("sendInitialEvents") == "true", bookmarks: q.Get("allowWatchBookmarks") == "true"}
	s.mu.Lock()
	faults, forgotten := s.faults, s.forgotten
	me.restarts = s.restarts
	s.mu.Unlock()
	switch {
	case me.initial && faults&Unstreamed != 0:
		answer(w, http.StatusUnprocessableEntity, s.status(t, "", http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents: Forbidden: unknown"))
		return
	case !me.initial && version != "" && version != "0" && from < forgotten:
		answer(w, http.StatusGone, s.status(t, "", http.StatusGone, metav1.StatusReasonExpired, "too old resource version"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if me.initial || version == "" || version == "0" {
		me.begin()
	}
	life := time.Hour
	if seconds, err := strconv.Atoi(q.Get("timeoutSeconds")); err == nil && seconds > 0 {
		life = time.Duration(seconds) * time.Second
	}
	me.run(r, life)
}

// begin sends the existing objects.
func (w *watching) begin() {
	s := w.s
	s.mu.Lock()
	var events []event
	for _, o := range s.listed(w.t, w.namespace) {
		events = append(events, event{s.versions[o], "ADDED", w.t.Resource, o})
	}
	w.from = s.version
	w.endless = w.initial && s.faults&EndlessList != 0
	noUID := s.faults&NoUID != 0
	s.mu.Unlock()
	for _, e := range events {
		w.deliver(e)
	}
	if noUID {
		s.mu.Lock()
		o := s.withoutUID(w.t)
		s.mu.Unlock()
		w.send("ADDED", o)
	}
	if w.initial && !w.endless {
		w.bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
}

func (w *watching) deliver(e event) {
	if w.namespace == "" || w.namespace == e.object.Namespace {
		w.send(e.what, w.s.document(w.t.Resource, e.object, e.version))
	}
}

func (w *watching) send(what string, o metav1.PartialObjectMetadata) {
	_ = w.encoder.Encode(map[string]any{"type": what, "object": o}) // the client may be gone
}

func (w *watching) bookmark(annotations map[string]string) {
	var o metav1.PartialObjectMetadata
	o.SetGroupVersionKind(w.s.groupVersion().WithKind(w.t.Kind))
	o.ResourceVersion, o.Annotations = fmt.Sprint(w.from), annotations
	w.send("BOOKMARK", o)
}

// busyEvery is the interval of events of a list that never ends.
const busyEvery = 50 * time.Millisecond

// run sends events until the client, the server or the timeout ends the watch.
func (w *watching) run(r *http.Request, life time.Duration) {
	every := w.s.config.Bookmarks
	if w.endless {
		every = busyEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	end := time.NewTimer(life)
	defer end.Stop()
	for {
		changed, goOn := w.step()
		w.out.(http.Flusher).Flush()
		if !goOn {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-end.C:
			return
		case <-tick.C:
			if !w.s.silent(r) {
				return
			}
			switch {
			case w.endless:
				w.busy()
			case w.bookmarks:
				w.bookmark(nil)
			}
		}
	}
}

// step sends the events since the last step. It returns a channel that is closed at the next
// change, and whether the watch continues.
func (w *watching) step() (changed <-chan struct{}, goOn bool) {
	s := w.s
	s.mu.Lock()
	faults := s.faults
	changed, goOn = s.changed, !s.closed && s.restarts == w.restarts
	var events []event
	if goOn && faults&(Silent|LateWatch) == 0 {
		first, _ := slices.BinarySearchFunc(s.past, w.from+1, func(e event, v uint64) int { return cmp.Compare(e.version, v) })
		for _, e := range s.past[first:] {
			if e.resource == w.t.Resource {
				events = append(events, e)
			}
		}
		w.from = max(w.from, s.version)
	}
	s.mu.Unlock()
	for _, e := range events {
		w.deliver(e)
	}
	if goOn && faults&EndsAfterBookmark != 0 && faults&Silent == 0 {
		w.bookmark(nil)
		return changed, false
	}
	return changed, goOn
}

// busy sends an object again, as if it had changed.
func (w *watching) busy() {
	w.s.mu.Lock()
	all := w.s.sorted(w.t.Resource, w.namespace)
	if len(all) == 0 {
		w.s.mu.Unlock()
		w.bookmark(nil)
		return
	}
	e := event{w.s.versions[all[0]], "MODIFIED", w.t.Resource, all[0]}
	w.s.mu.Unlock()
	w.deliver(e)
}
