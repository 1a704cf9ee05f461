package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// event is one line of a watch.
type event struct {
	verb verb
	item item // not for a bookmark
	// resourceVersion is where to go on after this event.
	resourceVersion string
}

type verb uint8

const (
	bookmark verb = iota // nothing happened; go on from here
	put                  // the pod is like this now
	remove               // the pod went, or is not of this node any more
)

// eventDecoder reads the events of a watch, one at a time.
type eventDecoder struct {
	meter *meter
	json  *json.Decoder
}

func newEventDecoder(r io.Reader) *eventDecoder {
	m := newMeter(r, unlimited)
	return &eventDecoder{meter: m, json: json.NewDecoder(m)}
}

// next returns the next event; io.EOF once the stream has ended between two.
// An error that the server sends as an event comes back as one.
func (d *eventDecoder) next() (event, error) {
	d.meter.next()
	var line struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	if err := d.json.Decode(&line); err == io.EOF {
		return event{}, io.EOF
	} else if err != nil {
		return event{}, malformed(err)
	}
	switch line.Type {
	case "ADDED", "MODIFIED":
		return podEvent(put, line.Object)
	case "DELETED":
		return podEvent(remove, line.Object)
	case "BOOKMARK":
		return bookmarkEvent(line.Object)
	case "ERROR":
		s := decodeStatus(line.Object)
		if s.Code == http.StatusGone {
			return event{}, fmt.Errorf("%w: %s", errExpired, fault.Clean(s.Message))
		}
		return event{}, fmt.Errorf("%w: the server ends the watch: %s", ErrUnavailable, fault.Clean(s.Message))
	}
	return event{}, nonsense("an event of the type %s", fault.Clean(line.Type))
}

func podEvent(v verb, raw json.RawMessage) (event, error) {
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return event{}, malformed(err)
	}
	it, err := o.named()
	if err != nil {
		return event{}, err
	}
	return checkedEvent(event{verb: v, item: it, resourceVersion: it.resourceVersion})
}

func bookmarkEvent(raw json.RawMessage) (event, error) {
	var o struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return event{}, malformed(err)
	}
	return checkedEvent(event{verb: bookmark, resourceVersion: o.Metadata.ResourceVersion})
}

// checkedEvent refuses an event after which nobody knows where to go on.
func checkedEvent(e event) (event, error) {
	if !validName(e.resourceVersion) {
		return event{}, nonsense("an event with the resource version %s", fault.Clean(e.resourceVersion))
	}
	return e, nil
}
