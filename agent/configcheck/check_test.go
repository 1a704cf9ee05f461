package configcheck

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	controller "github.com/ebb-agent/ebb/agent/cluster/config"
	agent "github.com/ebb-agent/ebb/agent/node/config"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name, text string
		kind, want Kind
		differ     []Difference
		errors     []string
	}{
		{name: "agent", text: "mode: enforce\nimages: {keep: [a/**], imageMaximumGCAge: 168h}\n", want: Agent, differ: []Difference{
			{"mode", "enforce", "observe"}, {"images.imageMaximumGCAge", "168h", "0s"}, {"images.keep", []any{"a/**"}, []any{}},
		}},
		{name: "controller", text: "exclude: {namespaces: [x]}\nserver: {address: ':1'}\n", want: Controller, differ: []Difference{
			{"exclude.namespaces", []any{"x"}, []any{}}, {"server.address", ":1", "127.0.0.1:9479"},
		}},
		{name: "defaults", kind: Agent, want: Agent},
		{name: "empty", errors: []string{ErrKind.Error()}},
		{name: "both", text: "images: {}\nexclude: {}\n", errors: []string{"images", "exclude"}},
		{name: "shared", text: "mode: enforce\n", kind: Controller, want: Controller, differ: []Difference{{"mode", "enforce", "observe"}}},
		{name: "all errors", text: "mode: maybe\nimages: {keep: 7, hihg: 1}\n", errors: []string{"mode:", "images.keep:", "images.hihg:"}},
		{name: "other kind", text: "images: {}\n", kind: Controller, errors: []string{"images:"}},
		{name: "twice", text: "images: {}\nimages: {}\n", errors: []string{"images"}},
		{name: "no mapping", text: "[a]\n", errors: []string{"want a mapping"}},
		{name: "unknown kind", kind: "node", errors: []string{`"node"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind, differ, err := Check([]byte(c.text), c.kind)
			if c.errors == nil {
				byField := func(a, b Difference) int { return strings.Compare(a.Field, b.Field) }
				slices.SortFunc(differ, byField)
				slices.SortFunc(c.differ, byField)
				if diff := cmp.Diff(c.differ, differ); err != nil || kind != c.want || diff != "" {
					t.Errorf("%s, %v\n%s", kind, err, diff)
				}
				return
			}
			for _, want := range c.errors {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
}

// TestDefaultsAreRecognized: the kind of the defaults that each program prints is found, and no field differs.
func TestDefaultsAreRecognized(t *testing.T) {
	var printed bytes.Buffer
	if err := agent.Print(&printed, agent.Default()); err != nil {
		t.Fatal(err)
	}
	for want, text := range map[Kind]string{Agent: printed.String(), Controller: controller.DefaultYAML} {
		if kind, differ, err := Check([]byte(text), ""); kind != want || len(differ) > 0 || err != nil {
			t.Errorf("%s: %s, %v, %v", want, kind, differ, err)
		}
	}
}

func TestText(t *testing.T) {
	if got, want := Text([]any{"a\x1b[31m\u202e", 1}), `["a\u001b[31m\u202e",1]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte("images: {keep: [a]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		kind, _, err := Check(data, "")
		if err == nil && kind == "" || errors.Is(err, ErrKind) && kind != "" {
			t.Errorf("%q, %v", kind, err)
		}
	})
}
