package metadata

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/ebb-agent/ebb/policy/gc"
)

// asProtobuf is how an API server writes an object.
func asProtobuf(t *testing.T, o runtime.Object) []byte {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	gvks, _, err := scheme.ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	o.GetObjectKind().SetGroupVersionKind(gvks[0])
	var b strings.Builder
	if err := protobuf.NewSerializer(scheme, scheme).Encode(o, &b); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

func aSecret(name string) corev1.Secret {
	return corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", ResourceVersion: "7"}, Data: map[string][]byte{"a": []byte("hush")}}
}

// length returns the length of the message in place of its fields.
func length(message []byte) (any, error) {
	if strings.Contains(string(message), "garbled") {
		return nil, fmt.Errorf("the secret is hush")
	}
	return len(message), nil
}

// TestLiveList: page by page, in a namespace or in all, live; what cannot be read is an error.
func TestLiveList(t *testing.T) {
	var asked []string
	names := [][]string{{"a", "b"}, {"c"}}
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+" "+r.URL.RawQuery)
		page, list := 0, &corev1.SecretList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
		if r.URL.Query().Get("continue") != "" {
			page = 1
		} else {
			list.Continue = "more"
		}
		for _, name := range names[page] {
			list.Items = append(list.Items, aSecret(name))
		}
		w.Header().Set("Content-Type", mediaProtobuf)
		_, _ = w.Write(asProtobuf(t, list))
	}), Options{})
	secrets := gc.Type{APIVersion: "v1", Kind: "Secret", Resource: "secrets", Namespaced: true}
	for _, in := range []string{"", "ns"} {
		asked = nil
		var got []string
		err := c.ListFields(t.Context(), secrets, Selection{Namespace: in}, length, func(o gc.Object, fields any) error {
			got = append(got, strings.Clone(o.Name))
			if o.Kind != "Secret" || o.UID != "u" || fields.(int) == 0 {
				t.Errorf("%+v, %v", o, fields)
			}
			return nil
		})
		path := map[string]string{"": "/api/v1/secrets", "ns": "/api/v1/namespaces/ns/secrets"}[in]
		if want := []string{path + " limit=500", path + " continue=more&limit=500"}; err != nil || !slices.Equal(got, []string{"a", "b", "c"}) || !slices.Equal(asked, want) {
			t.Errorf("%q: %q, asked %q, %v", in, got, asked, err)
		}
	}
	names[1] = []string{"garbled"}
	if err := c.ListFields(t.Context(), secrets, Selection{}, length, func(gc.Object, any) error { return nil }); !errors.Is(err, ErrMalformed) {
		t.Errorf("garbled: %v", err)
	}
	own := errors.New("enough")
	if err := c.ListFields(t.Context(), secrets, Selection{}, length, func(gc.Object, any) error { return own }); !errors.Is(err, own) {
		t.Errorf("%v", err)
	}
	if err := c.ListFields(t.Context(), secrets, Selection{Namespace: ".."}, length, nil); !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
}

// TestLiveGet: that very object, and none of its content in an error.
func TestLiveGet(t *testing.T) {
	name, kind := "a", "Secret"
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name == "" {
			statusAnswer(failed(404, "NotFound", `secrets "a" not found`, &metav1.StatusDetails{Name: "a", Kind: "secrets"}))(t, w, r)
			return
		}
		var o runtime.Object
		s := aSecret(name)
		if o = &s; kind != "Secret" {
			o = &corev1.ConfigMap{ObjectMeta: s.ObjectMeta}
		}
		w.Header().Set("Content-Type", mediaProtobuf)
		_, _ = w.Write(asProtobuf(t, o))
	}), Options{})
	get := func(of string) (any, error) {
		return c.ReadFields(t.Context(), gc.Coordinates{APIVersion: "v1", Kind: "Secret", Resource: "secrets", Namespace: "ns", Name: of}, true, length)
	}
	if got, err := get("a"); err != nil || got.(int) == 0 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := get("b"); !errors.Is(err, ErrMalformed) {
		t.Errorf("another: %v", err)
	}
	if _, err := get("../a"); !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
	name = "garbled"
	if _, err := get("garbled"); !errors.Is(err, ErrMalformed) || strings.Contains(err.Error(), "hush") {
		t.Errorf("garbled: %v", err)
	}
	name, kind = "a", "ConfigMap"
	if _, err := get("a"); !errors.Is(err, ErrMalformed) {
		t.Errorf("another kind: %v", err)
	}
	name = ""
	if got, err := get("a"); err == nil || got != nil {
		t.Errorf("gone: %v, %v", got, err)
	}
}
