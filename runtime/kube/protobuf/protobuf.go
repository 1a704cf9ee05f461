// Package protobuf reads fields of messages as Kubernetes encodes them. It has no generated
// types, because only a few of hundreds of fields are needed.
//
// Numbers of fields: the generated.proto files in k8s.io/api and k8s.io/apimachinery.
package protobuf

import (
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"google.golang.org/protobuf/encoding/protowire"
)

// Each calls field for every field of a message. field returns how many bytes it took, 0 to have
// the field skipped, or protowire's negative error codes. The errors of Each, and of all
// functions that use it, are [fault.ErrMalformed].
func Each(b []byte, field func(n protowire.Number, t protowire.Type, b []byte) int) error {
	for len(b) > 0 {
		n, t, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return fault.Nonsense("%v", protowire.ParseError(tag))
		}
		b = b[tag:]
		size := field(n, t, b)
		if size == 0 {
			size = protowire.ConsumeFieldValue(n, t, b)
		}
		if size < 0 {
			return fault.Nonsense("%v", protowire.ParseError(size))
		}
		b = b[size:]
	}
	return nil
}

// Take reads a field's bytes into to. They share the message's memory. It returns their encoded
// size, or 0 to have a field of another wire type skipped.
func Take(t protowire.Type, b []byte, to *[]byte) int {
	if t != protowire.BytesType {
		return 0
	}
	v, size := protowire.ConsumeBytes(b)
	if size > 0 {
		*to = v
	}
	return size
}

// To is where Read stores a field that is a message or a string.
type To struct {
	Field protowire.Number
	Bytes *[]byte
}

// Read reads fields of a message. They share the message's memory. If a field occurs twice, the
// last one counts.
func Read(message []byte, fields ...To) error {
	return Each(message, func(n protowire.Number, t protowire.Type, b []byte) int {
		for _, to := range fields {
			if to.Field == n {
				return Take(t, b, to.Bytes)
			}
		}
		return 0
	})
}

// Number reads a field that is a number, and reports whether the field exists.
func Number(message []byte, field protowire.Number) (v int64, set bool, err error) {
	err = Each(message, func(n protowire.Number, t protowire.Type, b []byte) int {
		if n != field {
			return 0
		}
		size := Int(t, b, &v)
		set = set || size > 0
		return size
	})
	return v, set, err
}

// Int reads a number into to. It returns its encoded size, or 0 to have a field of another wire
// type skipped.
func Int(t protowire.Type, b []byte, to *int64) int {
	if t != protowire.VarintType {
		return 0
	}
	v, size := protowire.ConsumeVarint(b)
	if size > 0 {
		*to = int64(v)
	}
	return size
}

// Time reads a metav1.Time or a metav1.MicroTime. It returns the zero time if there is none,
// which is encoded as the year 1 or as no field.
func Time(message []byte) (time.Time, error) {
	seconds, set, err := Number(message, 1)
	if err != nil || !set {
		return time.Time{}, err
	}
	nanos, _, err := Number(message, 2)
	return time.Unix(seconds, int64(int32(nanos))).UTC(), err
}
