// Package fields reads what a collector needs of objects beside their metadata, with one function
// for each type. A function takes the protobuf message of a whole object, without its envelope.
// The message is valid during the call only, and nothing of it is kept. A malformed message is an
// error, never an object that lacks something.
package fields

import (
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// reader reads fields of messages. After a malformed message it reads no more, and result returns
// only the error.
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

// take returns the bytes of one field of a message. They share the message's memory.
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

// parts are the three fields that all objects have.
type parts struct{ metadata, spec, status []byte }

// parts splits an object. By the rules of protobuf, the pieces of a part that occurs more than
// once are one message.
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

// messages calls do for each field that is a message or a string.
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

// conditions has the field numbers that differ between types of conditions. Conditions are the
// first field of a status, and their type is their first field.
type conditions struct{ status, at protowire.Number }

// condition is one condition of an object. kind and status share the message's memory.
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
