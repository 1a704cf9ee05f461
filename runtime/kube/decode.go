package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// decodeList reads a PodList, hands every pod to each, and returns the list's
// resource version. One object is held at a time. Only without an error was it
// a whole list: what each was told before must be forgotten otherwise.
func decodeList(r io.Reader, each func(item) error) (resourceVersion string, err error) {
	d := listDecoder{meter: newMeter(r, maxList), each: each}
	d.Decoder = json.NewDecoder(d.meter)
	if err := d.decode(); err != nil {
		return "", malformed(err)
	}
	return d.metadata.ResourceVersion, nil
}

type listDecoder struct {
	*json.Decoder
	meter *meter
	each  func(item) error

	kind, apiVersion string
	metadata         struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	}
	complete   bool // the items were there, and ended
	count      int
	references int
}

func (d *listDecoder) decode() error {
	if err := d.expect(json.Delim('{')); err != nil {
		return err
	}
	for fields := 0; d.More(); fields++ {
		if fields == maxFields {
			return nonsense("a list with hundreds of fields")
		}
		d.meter.next()
		key, err := d.Token()
		if err != nil {
			return err
		}
		if err := d.field(key); err != nil {
			return err
		}
	}
	d.meter.next()
	if err := d.expect(json.Delim('}')); err != nil {
		return err
	}
	if t, err := d.Token(); err == nil {
		return nonsense("%.40v after the list", t)
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("after the list: %w", err)
	}
	return d.check()
}

// field reads the value of one of the list's fields.
func (d *listDecoder) field(key json.Token) error {
	switch key {
	case "kind":
		return d.Decode(&d.kind)
	case "apiVersion":
		return d.Decode(&d.apiVersion)
	case "metadata":
		return d.Decode(&d.metadata)
	case "items":
		if d.complete {
			return nonsense("two lists of items")
		}
		return d.items()
	}
	var skipped json.RawMessage
	return d.Decode(&skipped)
}

// items reads the list itself. A kubelet without pods answers null, because it
// encodes a slice that it never made.
func (d *listDecoder) items() error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	d.complete = true
	if t == nil {
		return nil
	}
	if t != json.Delim('[') {
		return nonsense("items are %.40v", t)
	}
	for d.More() {
		d.meter.next()
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
			return nonsense("more pods or images than is plausible")
		}
		if err := d.each(it); err != nil {
			return err
		}
	}
	return d.expect(json.Delim(']'))
}

// check asks whether that was a list of pods, and all of it.
func (d *listDecoder) check() error {
	switch {
	case d.kind != "PodList" || d.apiVersion != "v1":
		return nonsense("kind %s %s, not a v1 PodList", fault.Clean(d.apiVersion), fault.Clean(d.kind))
	case !d.complete:
		return nonsense("a list without items")
	case d.metadata.Continue != "":
		return nonsense("only a part of the list")
	}
	return nil
}

func (d *listDecoder) expect(want json.Delim) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != want {
		return nonsense("%.40v instead of %v", t, want)
	}
	return nil
}

// decodePod reads one pod.
func decodePod(r io.Reader) (item, error) {
	var o object
	if err := json.NewDecoder(newMeter(r, maxObject)).Decode(&o); err != nil {
		return item{}, malformed(err)
	}
	return o.named()
}

// named is item for an object that must say what it is.
func (o *object) named() (item, error) {
	if o.Kind != "Pod" || o.APIVersion != "v1" {
		return item{}, nonsense("kind %s %s, not a v1 Pod", fault.Clean(o.APIVersion), fault.Clean(o.Kind))
	}
	return o.item()
}

// decodeStatus returns the zero value for anything that does not say what went wrong.
func decodeStatus(b []byte) fault.Status {
	s := fault.ParseStatus(b)
	if s.Status != "Failure" {
		return fault.Status{}
	}
	return s
}

// malformed says which errors of a decoder are the answer's fault. All others
// come from the connection.
func malformed(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		// io.EOF would read like an end in good order.
		return fmt.Errorf("the answer was cut off: %w", io.ErrUnexpectedEOF)
	}
	return fault.InJSON(err)
}

func nonsense(format string, args ...any) error { return fault.Nonsense(format, args...) }
