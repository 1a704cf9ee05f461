package metadata

import (
	"encoding/binary"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/policy/gc"
)

// What Kubernetes' own types write is what the decoders are held against.

type marshaler interface{ Marshal() ([]byte, error) }

func marshal(t require, m marshaler) []byte {
	b, err := m.Marshal()
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return b
}

type require interface{ Fatalf(string, ...any) }

// envelope wraps an object as the API server does.
func envelope(t require, kind string, m marshaler) []byte {
	version := "meta.k8s.io/v1"
	if kind == "Status" {
		version = "v1"
	}
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: version, Kind: kind}, Raw: marshal(t, m)}
	return append([]byte("k8s\x00"), marshal(t, &u)...)
}

// frame writes an event of a watch.
func frame(t require, what, kind string, m marshaler) []byte {
	e := metav1.WatchEvent{Type: what, Object: runtime.RawExtension{Raw: envelope(t, kind, m)}}
	b := marshal(t, &e)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func put1(t require, o *metav1.PartialObjectMetadata) []byte {
	return frame(t, "ADDED", "PartialObjectMetadata", o)
}

func bookmarkAt(t require, version string, end bool) []byte {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
	if end {
		o.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return frame(t, "BOOKMARK", "PartialObjectMetadata", o)
}

// named is an object with the least that one has.
func named(i int) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("o%d", i), Namespace: "n",
		UID: types.UID(fmt.Sprintf("uid-%d", i)), ResourceVersion: fmt.Sprint(100 + i)}}
}

// wanted is what is to be picked from an object.
func wanted(o *metav1.PartialObjectMetadata) item {
	it := item{Object: gc.Object{Name: o.Name, Namespace: o.Namespace, UID: string(o.UID), ResourceVersion: o.ResourceVersion,
		Terminating: o.DeletionTimestamp != nil, Finalizers: o.Finalizers}}
	for _, r := range o.OwnerReferences {
		it.Owners = append(it.Owners, gc.Reference{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: string(r.UID),
			Block: r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion})
	}
	it.generation = o.Generation
	it.initialEnd = o.Annotations[metav1.InitialEventsAnnotationKey] == "true"
	if len(it.Finalizers) == 0 {
		it.Finalizers = nil
	}
	return it
}

// anyObject draws an object as the API could have it.
func anyObject() *rapid.Generator[*metav1.PartialObjectMetadata] {
	word := rapid.OneOf(rapid.StringMatching(`[a-z0-9.-]{0,40}`), rapid.String())
	return rapid.Custom(func(t *rapid.T) *metav1.PartialObjectMetadata {
		m := metav1.ObjectMeta{
			Name: "n" + word.Draw(t, "name"), Namespace: word.Draw(t, "namespace"), GenerateName: word.Draw(t, "generateName"),
			UID: types.UID("u" + word.Draw(t, "uid")), ResourceVersion: fmt.Sprint(rapid.Uint64Min(1).Draw(t, "version")),
			Generation:  rapid.Int64().Draw(t, "generation"),
			Labels:      rapid.MapOfN(word, word, 0, 3).Draw(t, "labels"),
			Annotations: rapid.MapOfN(word, word, 0, 3).Draw(t, "annotations"),
			Finalizers:  rapid.SliceOfN(word, 0, 4).Draw(t, "finalizers"),
		}
		if rapid.Bool().Draw(t, "end") {
			m.Annotations[metav1.InitialEventsAnnotationKey] = rapid.SampledFrom([]string{"true", "false"}).Draw(t, "value")
		}
		if rapid.Bool().Draw(t, "terminating") {
			at := metav1.NewTime(time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "deleted"), 0))
			m.DeletionTimestamp, m.DeletionGracePeriodSeconds = &at, new(int64)
		}
		if rapid.Bool().Draw(t, "managed") {
			m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: word.Draw(t, "manager"), FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{}}`)}}
		}
		for range rapid.IntRange(0, 4).Draw(t, "owners") {
			r := metav1.OwnerReference{APIVersion: word.Draw(t, "apiVersion"), Kind: word.Draw(t, "kind"), Name: word.Draw(t, "owner"), UID: types.UID(word.Draw(t, "owner uid"))}
			if rapid.Bool().Draw(t, "has block") {
				block := rapid.Bool().Draw(t, "block")
				r.BlockOwnerDeletion, r.Controller = &block, &block
			}
			m.OwnerReferences = append(m.OwnerReferences, r)
		}
		return &metav1.PartialObjectMetadata{ObjectMeta: m}
	})
}
