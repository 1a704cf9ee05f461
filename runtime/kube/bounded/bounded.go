// Package bounded reads long answers within bounds, and JSON one object at a time.
package bounded

import (
	"encoding/json"
	"io"
	"math"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Unlimited is for a watch, which as a whole may be as long as it likes.
const Unlimited = math.MaxInt64

// maxFields bounds the fields of a list itself, which has four.
const maxFields = 100

// Reader bounds what is read of an answer, in bytes: all in all, and for one object. A decoder
// reads ahead, so that an object may get less than its limit by what the one before it took
// too much; the limits have room for that. Beyond them it is [fault.ErrMalformed].
type Reader struct {
	from         io.Reader
	total        int64 // still to come
	object, left int64 // of one object; of this one still to come
}

// NewReader begins with the first object.
func NewReader(from io.Reader, total, object int64) *Reader {
	return &Reader{from, total, object, object}
}

// Next begins another object.
func (r *Reader) Next() { r.left = r.object }

func (r *Reader) Read(p []byte) (int, error) {
	left := min(r.total, r.left)
	if left <= 0 {
		return 0, fault.Nonsense("longer than is plausible")
	}
	n, err := r.from.Read(p[:min(int64(len(p)), left)])
	r.total -= int64(n)
	r.left -= int64(n)
	return n, err
}

// JSON decodes a list or a watch. Its errors are as they come: see [fault.InJSON].
type JSON struct {
	*json.Decoder
	*Reader
}

// NewJSON is a decoder with the bounds of a Reader.
func NewJSON(from io.Reader, total, object int64) *JSON {
	r := NewReader(from, total, object)
	return &JSON{json.NewDecoder(r), r}
}

// Fields calls field for each field of an object, to decode its value or to Skip it.
func (d *JSON) Fields(field func(key string) error) error {
	if err := d.expect(json.Delim('{')); err != nil {
		return err
	}
	for fields := 0; d.More(); fields++ {
		if fields == maxFields {
			return fault.Nonsense("a list with hundreds of fields")
		}
		d.Next()
		key, err := d.Token()
		if err != nil {
			return err
		}
		if err := field(key.(string)); err != nil {
			return err
		}
	}
	d.Next()
	return d.expect(json.Delim('}'))
}

// Items calls item for each item of a list, to decode it. null is a list without items: so
// is a slice encoded that was never made, as by a kubelet without pods.
func (d *JSON) Items(item func() error) error {
	t, err := d.Token()
	switch {
	case err != nil, t == nil:
		return err
	case t != json.Delim('['):
		return fault.Nonsense("items are %.40v", t)
	}
	for d.More() {
		d.Next()
		if err := item(); err != nil {
			return err
		}
	}
	return d.expect(json.Delim(']'))
}

// Skip leaves out a value.
func (d *JSON) Skip() error {
	var skipped json.RawMessage
	return d.Decode(&skipped)
}

func (d *JSON) expect(want json.Delim) error {
	t, err := d.Token()
	if err == nil && t != want {
		err = fault.Nonsense("%.40v instead of %v", t, want)
	}
	return err
}

// Event decodes an event of a watch; io.EOF once that has ended between two.
func (d *JSON) Event() (what string, object json.RawMessage, err error) {
	var line struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	d.Next()
	err = d.Decode(&line)
	return line.Type, line.Object, err
}
