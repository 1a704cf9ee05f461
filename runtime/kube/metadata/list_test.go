package metadata

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func anyList(t *rapid.T) (list *metav1.PartialObjectMetadataList, want []item) {
	remaining := rapid.Int64Min(0).Draw(t, "remaining")
	list = &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{
		ResourceVersion: "7", Continue: rapid.StringMatching(`[a-z]{0,20}`).Draw(t, "continue"), RemainingItemCount: &remaining}}
	for range rapid.IntRange(0, 8).Draw(t, "items") {
		o := anyObject().Draw(t, "object")
		list.Items, want = append(list.Items, *o), append(want, wanted(o))
	}
	return list, want
}

// A list is read as it was written, or not at all: what is cut off anywhere is
// an error.
func TestList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, want := anyList(t)
		asJSON, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		asJSON = bytes.Replace(asJSON, []byte(`"items":null`), []byte(`"items":[]`), 1)
		asProto := envelope(t, "PartialObjectMetadataList", list)
		for name, read := range map[string]func([]byte) ([]item, page, error){"protobuf": readProto, "json": readJSON} {
			data := asProto
			if name == "json" {
				data = asJSON
			}
			got, p, err := read(data)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff(want, got, asItem); diff != "" {
				t.Fatalf("%s: %s", name, diff)
			}
			if wantPage := (page{"7", list.Continue}); p != wantPage {
				t.Fatalf("%s: %+v, want %+v", name, p, wantPage)
			}
			cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut")
			if _, p, err := read(data[:cut]); err == nil && !bytes.Equal(data[cut:], tail(asProto, cut)) {
				t.Fatalf("%s: cut off at %d of %d: %+v", name, cut, len(data), p)
			}
		}
	})
}

// tail is what may be missing: the last field of the envelope is the encoding of
// its content, which nobody needs.
func tail(data []byte, cut int) []byte {
	if b := data[cut:]; bytes.Equal(b, []byte{0x1a, 0, 0x22, 0}[max(0, 4-len(b)):]) {
		return b
	}
	return nil
}

func readProto(data []byte) (all []item, p page, err error) {
	r := iotest.HalfReader(bytes.NewReader(data))
	p, err = protoList(newFrames(r), new(decoder), new(Follower).sound(func(it item) error { all = append(all, it); return nil }))
	return all, p, err
}

func readJSON(data []byte) (all []item, p page, err error) {
	p, err = jsonList(bytes.NewReader(data), false, new(Follower).sound(func(it item) error { all = append(all, it); return nil }))
	return all, p, err
}

func TestNoList(t *testing.T) {
	for name, data := range map[string]string{
		"empty": "", "HTML": "<html>", "no object": "[]", "no items": `{"metadata":{"resourceVersion":"5"}}`,
		"items of another kind": `{"metadata":{"resourceVersion":"5"},"items":{}}`,
		"nameless":              `{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"uid":"u","resourceVersion":"5"}}]}`,
		"a string":              `{"metadata":{"resourceVersion":"5"},"items":["x"]}`,
	} {
		if _, _, err := readJSON([]byte(data)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, data := range map[string][]byte{
		"empty": nil, "JSON": []byte(`{"items":[]}`), "an object": envelope(t, "PartialObjectMetadata", named(1)),
		"a Status": envelope(t, "Status", &metav1.Status{Status: "Success"}),
		"nameless": envelope(t, "PartialObjectMetadataList", &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{}}}),
		"too long": append([]byte("k8s\x00\x12"), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
	} {
		if _, _, err := readProto(data); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	long := `{"metadata":{"uid":"u","resourceVersion":"5","name":"` + strings.Repeat("x", maxObject+1<<10) + `"}}`
	if _, _, err := readJSON([]byte(`{"items":[` + long + `]}`)); err == nil {
		t.Error("an object of more than 16 MiB was read")
	}
}

func FuzzList(f *testing.F) {
	f.Add(envelope(f, "PartialObjectMetadataList", &metav1.PartialObjectMetadataList{
		ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []metav1.PartialObjectMetadata{*named(1), *named(2)}}))
	f.Add([]byte(`{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a","uid":"u","resourceVersion":"5"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range []func([]byte) ([]item, page, error){readProto, readJSON} {
			all, _, err := read(data)
			for _, it := range all {
				if it.Name == "" || it.UID == "" {
					t.Errorf("%+v, %v", it, err)
				}
			}
		}
	})
}
