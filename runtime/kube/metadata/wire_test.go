package metadata

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

var asItem = cmp.AllowUnexported(item{})

// Both forms of an object are read as Kubernetes' own types have it, and what was
// read stays as it was while more is read with the same decoder.
func TestObjectIsReadAsKubernetesWroteIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d decoder
		var got, want []item
		for range rapid.IntRange(1, 20).Draw(t, "objects") {
			o := anyObject().Draw(t, "object")
			data := marshal(t, o)
			it, err := d.partial(data)
			if err != nil {
				t.Fatalf("read: %v", err)
			}
			for i := range data {
				data[i] = 'x' // nothing may refer to the buffer
			}
			got, want = append(got, it), append(want, wanted(o))
			if rapid.Bool().Draw(t, "rest") {
				d.reset()
			}
		}
		if diff := cmp.Diff(want, got, asItem); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestJSONObjectIsReadAsProtobuf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyObject().Draw(t, "object")
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		it, err := jsonItem(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted(o), it, asItem); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzObject(f *testing.F) {
	f.Add(marshal(f, named(1)))
	f.Add([]byte{0x0a, 0x02, 0x48, 0x01})
	rapidSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := new(decoder).partial(b)
		var o metav1.PartialObjectMetadata
		if err != nil || o.Unmarshal(b) != nil {
			return // what neither of the two takes never is the only thing they differ in
		}
		if diff := cmp.Diff(wanted(&o), got, asItem); diff != "" {
			t.Error(diff)
		}
	})
}

func rapidSeeds(f *testing.F) {
	for seed := range 8 {
		f.Add(marshal(f, anyObject().Example(seed)))
	}
}

func FuzzEvent(f *testing.F) {
	f.Add(frame(f, "ADDED", "PartialObjectMetadata", named(1))[4:])
	f.Add(bookmarkAt(f, "5", true)[4:])
	f.Add(frame(f, "ERROR", "Status", &metav1.Status{Status: "Failure", Code: 410, Reason: "Expired"})[4:])
	f.Fuzz(func(t *testing.T, b []byte) {
		head := []byte{byte(len(b) >> 24), byte(len(b) >> 16), byte(len(b) >> 8), byte(len(b))}
		e := &protoEvents{newFrames(bytes.NewReader(append(head, b...))), new(decoder)}
		got, err := e.next()
		if err != nil {
			return
		}
		if got.what == 0 || got.ResourceVersion == "" || got.what != Progress && (got.Name == "" || got.UID == "") {
			t.Errorf("taken: %+v", got)
		}
	})
}

func FuzzStatus(f *testing.F) {
	f.Add(marshal(f, notFound("configmaps", "", "x")))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := protoStatus(b)
		var s metav1.Status
		if err != nil || s.Unmarshal(b) != nil {
			return
		}
		data, err := json.Marshal(&s)
		if err != nil || !bytes.Equal(b, bytes.ToValidUTF8(b, nil)) || bytes.ContainsRune(data, '\uFFFD') {
			return // JSON cannot express it
		}
		data = append([]byte(`{"kind":"Status",`), data[1:]...)
		if diff := cmp.Diff(fault.ParseStatus(bytes.ReplaceAll(data, []byte(`"metadata":{},`), nil)), got); diff != "" {
			t.Errorf("%s: %s", data, diff)
		}
	})
}

// Objects of a type mostly repeat each other: a list of them costs a few
// allocations for hundreds.
func TestAllocations(t *testing.T) {
	o := named(1)
	o.Namespace = "some-namespace"
	o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d4f8c7b9", UID: "11111111-2222-3333-4444-555555555555"}}
	o.Finalizers = []string{"example.com/hold"}
	o.Annotations = map[string]string{"a": strings.Repeat("x", 1000)}
	data := marshal(t, o)
	var d decoder
	const n = 500
	allocs := testing.AllocsPerRun(10, func() {
		for range n {
			if _, err := d.partial(data); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs/n > 0.1 {
		t.Errorf("%.2f allocations an object", allocs/n)
	}
}
