package metadata

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"github.com/ebb-agent/ebb/runtime/kube/protobuf"
)

// decoder reads metadata from protobuf. It reads a few fields and skips the rest, which is most
// of the bytes: managedFields, annotations, labels.
type decoder struct {
	arena
	kind       string         // of whole objects
	fields     Fields         // nil: metadata alone is read
	details    bool           // the details of a ListedObject are read, too
	owners     []gc.Reference // of the current object
	finalizers []string
}

// magic is the prefix of everything in Kubernetes' protobuf except the events of a watch.
var magic = []byte("k8s\x00")

// typed is an encoded object, with its kind.
type typed struct {
	kind, raw []byte
}

// unwrap removes the envelope of an object, and reads the kind from it.
func unwrap(b []byte) (typed, error) {
	var o typed
	if !bytes.HasPrefix(b, magic) {
		return o, fault.Nonsense("no Kubernetes protobuf")
	}
	var meta, encoding []byte
	err := protobuf.Read(b[len(magic):], protobuf.To{Field: 1, Bytes: &meta}, protobuf.To{Field: 2, Bytes: &o.raw}, protobuf.To{Field: 3, Bytes: &encoding})
	if err != nil {
		return o, err
	}
	if len(encoding) > 0 {
		return o, fault.Nonsense("the encoding %s", fault.Clean(string(encoding)))
	}
	return o, o.typeMeta(meta)
}

func (o *typed) typeMeta(b []byte) error {
	return protobuf.Read(b, protobuf.To{Field: 2, Bytes: &o.kind})
}

// item is an object as a list or a watch reported it.
type item struct {
	gc.Object
	fields     any
	listed     *ListedObject // with details
	generation int64
	initialEnd bool // of a bookmark: the initial objects have been reported
}

// partialKind is the kind of an object that has only metadata.
const partialKind = "PartialObjectMetadata"

// wants returns the kind of the objects that the server should send.
func (d *decoder) wants() string {
	if d.fields == nil {
		return partialKind
	}
	return d.kind
}

func (d *decoder) accepts(partial, whole string) string {
	if d.fields == nil {
		return partial
	}
	return whole
}

// object reads the metadata of an object and, if d.fields is set, its fields. If d.fields fails,
// the item has none.
func (d *decoder) object(b []byte) (it item, err error) {
	if it, err = d.partial(b); err != nil || d.fields == nil {
		return it, err
	}
	if fields, err := d.fields(b); err == nil {
		it.fields = fields
	}
	return it, nil
}

// partial reads the metadata of an object, which is field 1 of every type.
func (d *decoder) partial(b []byte) (item, error) {
	var it item
	if d.details {
		it.listed = new(ListedObject)
	}
	d.owners, d.finalizers = d.owners[:0], d.finalizers[:0]
	var failed error
	err := protobuf.Each(b, func(n protowire.Number, t protowire.Type, b []byte) int {
		var meta []byte
		if n != 1 || failed != nil {
			return 0
		}
		size := protobuf.Take(t, b, &meta)
		failed = d.meta(meta, &it)
		return size
	})
	if err = cmp.Or(failed, err); err != nil {
		return it, err
	}
	it.Owners = d.refs.keep(d.owners)
	it.Finalizers = d.names.keep(d.finalizers)
	return it, nil
}

// meta reads an ObjectMeta. The loop is written out: it runs for every object
// of the cluster.
func (d *decoder) meta(b []byte, it *item) error {
	for len(b) > 0 {
		n, t, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return fault.Nonsense("%v", protowire.ParseError(tag))
		}
		b = b[tag:]
		if n == 7 && t == protowire.VarintType {
			v, size := protowire.ConsumeVarint(b)
			if size < 0 {
				return fault.Nonsense("%v", protowire.ParseError(size))
			}
			it.generation, b = int64(v), b[size:]
			continue
		}
		if t != protowire.BytesType {
			size := protowire.ConsumeFieldValue(n, t, b)
			if size < 0 {
				return fault.Nonsense("%v", protowire.ParseError(size))
			}
			b = b[size:]
			continue
		}
		v, size := protowire.ConsumeBytes(b)
		if size < 0 {
			return fault.Nonsense("%v", protowire.ParseError(size))
		}
		b = b[size:]
		if err := d.metaField(n, v, it); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) metaField(n protowire.Number, v []byte, it *item) error {
	switch n {
	case 1:
		it.Name = d.keep(v)
	case 3:
		it.Namespace = d.keep(v)
	case 5:
		it.UID = d.keep(v)
	case 6:
		it.ResourceVersion = d.keep(v)
	case 9:
		it.Terminating = true
		return it.listed.deletion(v)
	case 11:
		return it.listed.label(v)
	case 12:
		return annotation(v, it)
	case 13:
		r, err := d.reference(v)
		if err != nil {
			return err
		}
		d.owners = append(d.owners, r)
	case 14:
		d.finalizers = append(d.finalizers, d.keep(v))
	}
	return nil
}

func (d *decoder) reference(b []byte) (r gc.Reference, err error) {
	err = protobuf.Each(b, func(n protowire.Number, t protowire.Type, b []byte) (size int) {
		var to *string
		switch n {
		case 1:
			to = &r.Kind
		case 3:
			to = &r.Name
		case 4:
			to = &r.UID
		case 5:
			to = &r.APIVersion
		case 7:
			var block int64
			size = protobuf.Int(t, b, &block)
			r.Block = block != 0
			return size
		default:
			return 0
		}
		var v []byte
		if size = protobuf.Take(t, b, &v); size > 0 {
			*to = d.keep(v)
		}
		return size
	})
	return r, err
}

// endOfInitial is the annotation of the bookmark that follows the initial objects of a watch.
const endOfInitial = "k8s.io/initial-events-end"

func annotation(b []byte, it *item) error {
	if len(b) > 64 || !bytes.Contains(b, []byte(endOfInitial)) {
		return nil // another annotation; most are long
	}
	var key, value []byte
	err := protobuf.Read(b, protobuf.To{Field: 1, Bytes: &key}, protobuf.To{Field: 2, Bytes: &value})
	it.initialEnd = it.initialEnd || string(key) == endOfInitial && string(value) == "true"
	return err
}

// watchFrame reads one event of a watch: its type and its object.
func watchFrame(b []byte) (event []byte, object typed, err error) {
	var extension, raw []byte
	err = protobuf.Read(b, protobuf.To{Field: 1, Bytes: &event}, protobuf.To{Field: 2, Bytes: &extension})
	if err == nil {
		err = protobuf.Read(extension, protobuf.To{Field: 1, Bytes: &raw})
	}
	if err != nil {
		return nil, object, fmt.Errorf("event: %w", err)
	}
	object, err = unwrap(raw)
	return event, object, err
}

// arena keeps the strings and slices of many objects in few allocations. It never overwrites what
// it has returned, so callers may keep that. But one string keeps its whole chunk in memory.
type arena struct {
	text  strings.Builder
	chunk int
	refs  sliceArena[gc.Reference]
	names sliceArena[string]
}

// Chunks begin small, because most watches report one thing in a minute, and double during a
// list.
const (
	minChunk = 512
	maxChunk = 32 << 10
	maxSlice = 128
)

func (s *arena) keep(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s.text.Cap()-s.text.Len() < len(b) {
		s.chunk = min(max(2*s.chunk, minChunk), maxChunk)
		s.text = strings.Builder{}
		s.text.Grow(max(s.chunk, len(b)))
	}
	at := s.text.Len()
	s.text.Write(b)
	return s.text.String()[at:]
}

// reset releases the chunks, because nothing more comes for a while.
func (s *arena) reset() { *s = arena{} }

// sliceArena is one array for the slices of many objects.
type sliceArena[T any] struct {
	all  []T
	size int
}

func (s *sliceArena[T]) keep(v []T) []T {
	if len(v) == 0 {
		return nil
	}
	if len(v) > cap(s.all)-len(s.all) {
		if len(v) > maxSlice/2 {
			return slices.Clone(v)
		}
		s.size = min(max(2*s.size, len(v)), maxSlice)
		s.all = make([]T, 0, s.size)
	}
	at := len(s.all)
	s.all = append(s.all, v...)
	return s.all[at:len(s.all):len(s.all)] // an append must not overwrite the next slice
}
