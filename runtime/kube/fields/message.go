// Package fields picks from objects what a collector wants to know beside their metadata,
// one function a type. Each takes the protobuf message of a whole object, without its
// envelope, which is valid during the call only: nothing of it is kept. A message that is
// garbled is an error, never an object that lacks something.
package fields

import (
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// reader picks from messages. Once one was garbled it reads no more, and has nothing in the
// end but the error.
type reader struct{ err error }

func (r *reader) result(v any) (any, error) {
	if r.err != nil {
		return nil, r.err
	}
	return v, nil
}

func (r *reader) read(message []byte, fields ...protobuf.To) {
	if r.err == nil {
		r.err = protobuf.Read(message, fields...)
	}
}

// take one field of a message.
func (r *reader) take(message []byte, field protowire.Number) (v []byte) {
	r.read(message, protobuf.To{Field: field, Bytes: &v})
	return v
}

func (r *reader) text(message []byte, field protowire.Number) string {
	return string(r.take(message, field))
}

func (r *reader) number(message []byte, field protowire.Number) (v int64, set bool) {
	if r.err == nil {
		v, set, r.err = protobuf.Number(message, field)
	}
	return v, set
}

func (r *reader) time(message []byte) (at time.Time) {
	if r.err == nil {
		at, r.err = protobuf.Time(message)
	}
	return at
}

// parts of an object: all have these three.
type parts struct{ metadata, spec, status []byte }

// A part that comes more than once is one message in pieces, as protobuf has it.
func (r *reader) parts(message []byte) (p parts) {
	r.messages(message, func(n protowire.Number, b []byte) {
		for at, part := range [...]*[]byte{&p.metadata, &p.spec, &p.status} {
			if n != protowire.Number(at+1) {
				continue
			}
			if *part == nil {
				*part = b
			} else {
				*part = slices.Concat(*part, b)
			}
		}
	})
	return p
}

// created is metadata.creationTimestamp.
func (r *reader) created(p parts) time.Time { return r.time(r.take(p.metadata, 8)) }

// messages calls do for each field that is a message or a text.
func (r *reader) messages(message []byte, do func(n protowire.Number, b []byte)) {
	if r.err != nil {
		return
	}
	err := protobuf.Each(message, func(n protowire.Number, t protowire.Type, b []byte) int {
		var m []byte
		size := protobuf.Take(t, b, &m)
		if size > 0 && r.err == nil {
			do(n, m)
		}
		return size
	})
	if err != nil {
		r.err = err
	}
}

// pairs calls do with the fields 1 and 2 of each message in a repeated field: key and value
// of a label or a taint, type and status of a condition.
func (r *reader) pairs(message []byte, field protowire.Number, do func(one, two []byte)) {
	r.messages(message, func(n protowire.Number, b []byte) {
		var one, two []byte
		if n != field {
			return
		}
		if r.read(b, protobuf.To{Field: 1, Bytes: &one}, protobuf.To{Field: 2, Bytes: &two}); r.err == nil {
			do(one, two)
		}
	})
}

// conditions are the first field of a status. Their other fields have numbers that
// differ from type to type.
type conditions struct{ status, at protowire.Number }

// condition is one of an object's. Its texts share the message's memory.
type condition struct {
	kind, status []byte
	at           time.Time
}

// conditions calls do for all conditions in a status.
func (r *reader) conditions(status []byte, c conditions, do func(condition)) {
	r.messages(status, func(n protowire.Number, b []byte) {
		if n != 1 {
			return
		}
		if one := r.condition(b, c); r.err == nil {
			do(one)
		}
	})
}

func (r *reader) condition(message []byte, c conditions) (one condition) {
	var at []byte
	r.read(message, protobuf.To{Field: 1, Bytes: &one.kind}, protobuf.To{Field: c.status, Bytes: &one.status}, protobuf.To{Field: c.at, Bytes: &at})
	one.at = r.time(at)
	return one
}
