package metadata

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/bounded"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// acceptPartial requests metadata only. A server that does not support that sends whole objects
// in JSON, of which the same fields are read.
const (
	acceptPartial = mediaProtobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
		mediaJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1," + mediaJSON
	acceptList = mediaProtobuf + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," +
		mediaJSON + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," + mediaJSON
	acceptWatch = mediaProtobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1;stream=watch," + acceptPartial
	// acceptWhole is for a watch of whole objects.
	acceptWhole = mediaProtobuf + ";stream=watch," + mediaProtobuf
)

// watchEvent is one event of a watch: Observed, Deleted or, of a bookmark, Progress.
type watchEvent struct {
	item
	what EventKind
}

// events reads a watch.
type events interface {
	next() (watchEvent, error) // io.EOF: it ended between two events
	ready() bool               // whether next need not wait
}

func newEvents(resp *http.Response, d *decoder) (events, error) {
	switch m := media(resp); {
	case m == mediaProtobuf:
		return &protoEvents{newFrames(resp.Body), d}, nil
	case m == mediaJSON && d.fields == nil:
		return jsonEvents{bounded.NewJSON(resp.Body, bounded.Unlimited, maxObject)}, nil
	default:
		return nil, fault.Nonsense("a watch of the type %s", fault.Clean(m))
	}
}

type protoEvents struct {
	*frames
	d *decoder
}

func (e *protoEvents) next() (watchEvent, error) {
	b, err := e.frames.next()
	if err != nil {
		return watchEvent{}, err
	}
	what, o, err := watchFrame(b)
	if err != nil {
		return watchEvent{}, err
	}
	wants := e.d.wants()
	if string(what) == "ERROR" {
		wants = "Status"
	}
	if string(o.kind) != wants {
		return watchEvent{}, fault.Nonsense("an event about a %s", fault.Clean(string(o.kind)))
	}
	if wants == "Status" {
		s, err := protoStatus(o.raw)
		if err == nil {
			err = ended(s)
		}
		return watchEvent{}, err
	}
	read := e.d.object
	if string(what) == "BOOKMARK" {
		read = e.d.partial // a bookmark has only metadata, even if whole objects are read
	}
	it, err := read(o.raw)
	if err != nil {
		return watchEvent{}, err
	}
	return check(string(what), it)
}

// ended turns the Status with which a server ends a watch into an error.
func ended(s fault.Status) error {
	f := &fault.Answer{Fault: fault.Fault{Op: "watch", Kind: ErrUnavailable, Text: fault.Clean(s.Message)}, Code: s.Code, Status: s, RetryAfter: pause(s)}
	if expired(s) {
		f.Kind = errExpired
	}
	return f
}

var eventKinds = map[string]EventKind{"ADDED": Observed, "MODIFIED": Observed, "DELETED": Deleted, "BOOKMARK": Progress}

// check refuses an event of an unknown type.
func check(what string, it item) (watchEvent, error) {
	kind := eventKinds[what]
	if kind == 0 {
		return watchEvent{}, fault.Nonsense("an event of the type %s", fault.Clean(what))
	}
	return watchEvent{it, kind}, nil
}

// jsonEvents reads a watch in JSON, of a server without protobuf.
type jsonEvents struct{ *bounded.JSON }

func (jsonEvents) ready() bool { return false }

func (e jsonEvents) next() (watchEvent, error) {
	what, object, err := e.Event()
	if err != nil {
		return watchEvent{}, fault.InJSON(err)
	}
	if what == "ERROR" {
		return watchEvent{}, ended(fault.ParseStatus(object))
	}
	it, err := jsonItem(object)
	if err != nil {
		return watchEvent{}, err
	}
	return check(what, it)
}

// jsonObject has the fields that are read from any object.
type jsonObject struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace"`
		UID               string            `json:"uid"`
		Generation        int64             `json:"generation"`
		ResourceVersion   string            `json:"resourceVersion"`
		DeletionTimestamp *string           `json:"deletionTimestamp"`
		Finalizers        []string          `json:"finalizers"`
		Labels            map[string]string `json:"labels"`
		Annotations       map[string]string `json:"annotations"`
		OwnerReferences   []struct {
			APIVersion         string `json:"apiVersion"`
			Kind               string `json:"kind"`
			Name               string `json:"name"`
			UID                string `json:"uid"`
			BlockOwnerDeletion bool   `json:"blockOwnerDeletion"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
}

func jsonItem(b []byte) (item, error) {
	var o jsonObject
	if err := json.Unmarshal(b, &o); err != nil {
		return item{}, fault.InJSON(err)
	}
	if o.Kind == "Status" {
		return item{}, fault.Nonsense("a Status where an object should be")
	}
	return o.item(), nil
}

// listed returns a ListedObject without the object itself.
func (o *jsonObject) listed() *ListedObject {
	t := &ListedObject{Labels: o.Metadata.Labels}
	if at := o.Metadata.DeletionTimestamp; at != nil {
		if when, err := time.Parse(time.RFC3339, *at); err == nil { // an unreadable time counts as none
			t.Deleted = when
		}
	}
	return t
}

func (o *jsonObject) item() item {
	m := &o.Metadata
	it := item{generation: m.Generation, initialEnd: m.Annotations[endOfInitial] == "true", Object: gc.Object{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
		Finalizers: m.Finalizers, Terminating: m.DeletionTimestamp != nil,
	}}
	for _, r := range m.OwnerReferences {
		it.Owners = append(it.Owners, gc.Reference{
			APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: r.UID, Block: r.BlockOwnerDeletion})
	}
	return it
}
