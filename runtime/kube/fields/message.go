package fields

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// parts of an object: all have these three.
type parts struct{ metadata, spec, status []byte }

func split(message []byte) (p parts, err error) {
	err = protobuf.Each(message, func(n protowire.Number, t protowire.Type, b []byte) int {
		switch n {
		case 1:
			return protobuf.Take(t, b, &p.metadata)
		case 2:
			return protobuf.Take(t, b, &p.spec)
		case 3:
			return protobuf.Take(t, b, &p.status)
		}
		return 0
	})
	return p, err
}

// created is metadata.creationTimestamp.
func (p parts) created() (time.Time, error) {
	at, err := take(p.metadata, 8)
	if err != nil {
		return time.Time{}, err
	}
	return protobuf.Time(at)
}

// take one field of a message.
func take(message []byte, field protowire.Number) (v []byte, err error) {
	err = protobuf.Each(message, func(n protowire.Number, t protowire.Type, b []byte) int {
		if n != field {
			return 0
		}
		return protobuf.Take(t, b, &v)
	})
	return v, err
}

// conditions are the first field of a status. Their other fields have numbers that
// differ from type to type.
type conditions struct{ status, at protowire.Number }

// condition is one of an object's. Its texts share the message's memory.
type condition struct {
	kind, status []byte
	at           time.Time
}

// each calls do for all conditions in a status.
func (c conditions) each(status []byte, do func(condition)) error {
	return messages(status, func(n protowire.Number, b []byte) error {
		if n != 1 {
			return nil
		}
		one, err := c.read(b)
		if err == nil {
			do(one)
		}
		return err
	})
}

func (c conditions) read(message []byte) (one condition, err error) {
	var at []byte
	err = protobuf.Each(message, func(n protowire.Number, t protowire.Type, b []byte) int {
		switch n {
		case 1:
			return protobuf.Take(t, b, &one.kind)
		case c.status:
			return protobuf.Take(t, b, &one.status)
		case c.at:
			return protobuf.Take(t, b, &at)
		}
		return 0
	})
	if err == nil {
		one.at, err = protobuf.Time(at)
	}
	return one, err
}

// messages calls do for each field that is a message or a text.
func messages(message []byte, do func(n protowire.Number, b []byte) error) error {
	var first error
	err := protobuf.Each(message, func(n protowire.Number, t protowire.Type, b []byte) int {
		var m []byte
		size := protobuf.Take(t, b, &m)
		if size > 0 && first == nil {
			first = do(n, m)
		}
		return size
	})
	if err == nil {
		err = first
	}
	return err
}
