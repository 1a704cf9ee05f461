// Package bounded reads long answers within bounds, and JSON one object at a time.
package bounded

import (
	"encoding/json"
	"io"
	"math"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Unlimited is the total limit of a watch, which has no limit as a whole.
const Unlimited = math.MaxInt64

// maxFields is the limit of the fields of a list itself. A real list has four.
const maxFields = 100

// Reader limits the bytes that are read of an answer: in total, and for one object. A decoder
// reads ahead, so the limit of an object is not exact: bytes count for the object during which
// they were read. The limits leave room for that. Beyond them, Read returns [fault.ErrMalformed].
type Reader struct {
	from         io.Reader
	total        int64 // left in total
	object, left int64 // limit of one object; left of the current one
}

// NewReader returns a Reader that begins with the first object. total and object are in bytes.
func NewReader(from io.Reader, total, object int64) *Reader {
	return &Reader{from, total, object, object}
}

// Next begins another object, with the full limit of an object.
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

// JSON decodes a list or a watch. It returns the errors of the decoder and the Reader as they
// are: see [fault.InJSON].
type JSON struct {
	*json.Decoder
	*Reader
}

// NewJSON returns a decoder with the limits of a Reader.
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

// Items calls item for each item of a list, to decode it. null is a list without items: Go
// encodes a nil slice like that, as a kubelet without pods does.
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

// Skip reads a value and discards it.
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

// Event decodes one event of a watch. It returns io.EOF if the watch ended between two events.
func (d *JSON) Event() (what string, object json.RawMessage, err error) {
	var line struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	d.Next()
	err = d.Decode(&line)
	return line.Type, line.Object, err
}
