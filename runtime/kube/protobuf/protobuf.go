// Package protobuf picks fields from messages as Kubernetes encodes them, without
// generated types: what is wanted is a few of hundreds of fields.
//
// Numbers of fields: the generated.proto files in k8s.io/api and k8s.io/apimachinery.
package protobuf

import (
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"google.golang.org/protobuf/encoding/protowire"
)

// Each calls field for every field of a message. field returns how many bytes it took,
// 0 to have the field skipped, or protowire's negative error codes. Its errors are
// [fault.ErrMalformed], as are those of all that rest on it.
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

// Take reads a field's bytes, which share the message's memory. Another type of field is
// skipped.
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

// To is where a field that is a message or a text goes.
type To struct {
	Field protowire.Number
	Bytes *[]byte
}

// Read reads fields of a message, which share its memory. Of one that is there twice the
// last counts.
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

// Number reads a field that is a number, and says whether it is there.
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

// Int reads a number. Another type of field is skipped.
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

// Time reads a metav1.Time or a metav1.MicroTime. The zero time stands for none: it is
// encoded as the year 1, and as no field.
func Time(message []byte) (time.Time, error) {
	seconds, set, err := Number(message, 1)
	if err != nil || !set {
		return time.Time{}, err
	}
	nanos, _, err := Number(message, 2)
	return time.Unix(seconds, int64(int32(nanos))).UTC(), err
}
