package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/ebb-agent/ebb/runtime/kube/bounded"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// decodeList reads a PodList, calls each for every pod, and returns the list's resource version.
// It holds one object at a time. On an error the list was not complete, and the caller must
// discard the pods that it got.
func decodeList(r io.Reader, each func(item) error) (resourceVersion string, err error) {
	d := listDecoder{JSON: bounded.NewJSON(r, maxList, maxObject), each: each}
	if err = d.Fields(d.field); err == nil {
		err = d.check()
	}
	if err != nil {
		return "", malformed(err)
	}
	return d.metadata.ResourceVersion, nil
}

type listDecoder struct {
	*bounded.JSON
	each func(item) error

	kind, apiVersion string
	metadata         struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	}
	complete   bool // items were read
	count      int
	references int
}

// field reads the value of one of the list's fields.
func (d *listDecoder) field(key string) error {
	switch key {
	case "kind":
		return d.Decode(&d.kind)
	case "apiVersion":
		return d.Decode(&d.apiVersion)
	case "metadata":
		return d.Decode(&d.metadata)
	case "items":
		if d.complete {
			return fault.Nonsense("two lists of items")
		}
		d.complete = true
		return d.Items(d.item)
	}
	return d.Skip()
}

func (d *listDecoder) item() error {
	var o object
	if err := d.Decode(&o); err != nil {
		return err
	}
	it, err := o.item()
	if err != nil {
		return err
	}
	d.count++
	if d.references += len(it.Images); d.count > maxPods || d.references > maxReferences {
		return fault.Nonsense("more pods or images than is plausible")
	}
	return d.each(it)
}

// check returns an error unless the document was one complete PodList and nothing follows it.
func (d *listDecoder) check() error {
	if t, err := d.Token(); err == nil {
		return fault.Nonsense("%.40v after the list", t)
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("after the list: %w", err)
	}
	switch {
	case d.kind != "PodList" || d.apiVersion != "v1":
		return fault.Nonsense("kind %s %s, not a v1 PodList", fault.Clean(d.apiVersion), fault.Clean(d.kind))
	case !d.complete:
		return fault.Nonsense("a list without items")
	case d.metadata.Continue != "":
		return fault.Nonsense("only a part of the list")
	}
	return nil
}

// malformed returns a decoder's error as ErrMalformed if the content is wrong. Other errors come
// from the connection: an early end becomes io.ErrUnexpectedEOF, the rest is unchanged.
func malformed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		// io.EOF would look like a normal end.
		return fmt.Errorf("the answer was cut off: %w", io.ErrUnexpectedEOF)
	}
	return fault.InJSON(err)
}

// event is one line of a watch.
type event struct {
	verb verb
	item item // not for a bookmark
	// resourceVersion is the version to resume from after this event.
	resourceVersion string
}

type verb uint8

const (
	bookmark verb = iota // no change; resume from here
	put                  // the pod's new state
	remove               // the pod was deleted, or is no longer bound to this node
)

// eventDecoder reads the events of a watch, one at a time.
type eventDecoder struct{ *bounded.JSON }

func newEventDecoder(r io.Reader) eventDecoder {
	return eventDecoder{bounded.NewJSON(r, bounded.Unlimited, maxObject)}
}

// next returns the next event, or io.EOF if the stream ended between two events. It returns an
// ERROR event of the server as an error.
func (d eventDecoder) next() (e event, err error) {
	what, raw, err := d.Event()
	switch {
	case err == io.EOF:
		return e, err
	case err != nil:
		return e, malformed(err)
	}
	switch what {
	case "ADDED", "MODIFIED":
		e.verb = put
	case "DELETED":
		e.verb = remove
	case "BOOKMARK":
		e.verb = bookmark
	case "ERROR":
		s := fault.ParseStatus(raw)
		if s.Code == http.StatusGone {
			return e, fmt.Errorf("%w: %s", errExpired, fault.Clean(s.Message))
		}
		return e, fmt.Errorf("%w: the server ends the watch: %s", ErrUnavailable, fault.Clean(s.Message))
	default:
		return e, fault.Nonsense("an event of the type %s", fault.Clean(what))
	}
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return e, malformed(err)
	}
	if e.resourceVersion = o.Metadata.ResourceVersion; e.verb != bookmark {
		e.item, err = o.named()
	}
	if err == nil && !validName(e.resourceVersion) { // the watch could not be resumed
		err = fault.Nonsense("an event with the resource version %s", fault.Clean(e.resourceVersion))
	}
	return e, err
}
