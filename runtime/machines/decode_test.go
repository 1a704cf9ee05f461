package machines

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/policy/nodes"
)

const good = `{"version": 1, "time": "2026-11-22T12:00:00Z", "complete": true, "count": 2, "nodes": [
	{"name": "worker-1", "providerID": "metal://rack-7/worker-1"}, {"name": "worker-2"}]}
`

func TestDecode(t *testing.T) {
	want := &nodes.Inventory{Time: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Machines: []nodes.Machine{
		{Name: "worker-1", ProviderID: "metal://rack-7/worker-1"}, {Name: "worker-2"}}}
	got, err := Decode([]byte(good))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%s, %v", diff, err)
	}
	if got, err := Decode([]byte(`{"version":1,"time":"2026-11-22T13:00:00+01:00","complete":true,"count":0,"nodes":[]}`)); err != nil || len(got.Machines) > 0 || !got.Time.Equal(want.Time) {
		t.Errorf("an empty one: %+v, %v", got, err)
	}
}

// replaced is good with one thing otherwise.
func replaced(t *testing.T, old, with string) string {
	t.Helper()
	if strings.Count(good, old) != 1 {
		t.Fatalf("%q is not there once", old)
	}
	return strings.Replace(good, old, with, 1)
}

// TestBad: what is not exactly an inventory is an error with the reason.
func TestBad(t *testing.T) {
	r := func(old, with string) string { return replaced(t, old, with) }
	for _, test := range []struct{ document, want string }{
		{"", "empty"},
		{" \n", "empty"},
		{"<!DOCTYPE html><html><body>Sign in</body></html>", `begins with "<!DOCTYPE html>`},
		{"[]", "no JSON object"},
		{"null", "no JSON object"},
		{"{}", "version is missing"},
		{r(`"version": 1`, `"version": 2`), "version 2 is not known"},
		{r(`"version": 1, `, ``), "version is missing"},
		{r(`"version": 1`, `"version": "1"`), "string into Go struct field list.version"},
		{r(`"version": 1`, `"version": null`), "version is missing"},
		{r(`"time": "2026-11-22T12:00:00Z", `, ``), "time is missing"},
		{r(`2026-11-22T12:00:00Z`, `yesterday`), `time "yesterday" is not`},
		{r(`2026-11-22T12:00:00Z`, `2026-11-22 12:00:00`), `is not as in`},
		{r(`"2026-11-22T12:00:00Z"`, `1795348800`), "number into Go struct field list.time"},
		{r(`"complete": true, `, ``), "complete"},
		{r(`"complete": true`, `"complete": false`), "complete"},
		{r(`"complete": true`, `"Complete": true`), `unknown field "Complete"`},
		{r(`"complete": true`, `"complete": "true"`), "string into Go struct field list.complete"},
		{r(`"count": 2, `, ``), "count is missing"},
		{r(`"count": 2`, `"count": 3`), "count is 3, and there are 2"},
		{r(`"count": 2`, `"count": 2, "count": 3`), `duplicate field "count"`},
		{r(`"count": 2`, `"count": 2.5`), "number 2.5 into Go struct field list.count"},
		{r(`"count": 2`, `"count": 2, "more": 1`), `unknown field "more"`},
		{r("\"nodes\": [\n", "\"machines\": [\n"), `unknown field "machines"`},
		{r("]}", `], "nodes": []}`), `duplicate field "nodes"`},
		{`{"version":1,"time":"2026-11-22T12:00:00Z","complete":true,"count":0}`, "nodes are missing"},
		{`{"version":1,"time":"2026-11-22T12:00:00Z","complete":true,"count":0,"nodes":null}`, "nodes are missing"},
		{`{"version":1,"time":"2026-11-22T12:00:00Z","complete":true,"count":0,"nodes":{}}`, "object into Go struct field list.nodes"},
		{r(`{"name": "worker-2"}`, `"worker-2"`), "string into Go struct field list.nodes"},
		{r(`{"name": "worker-2"}`, `{}`), "nodes[1] has neither"},
		{r(`{"name": "worker-2"}`, `{"name": "", "providerID": null}`), "nodes[1] has neither"},
		{r(`{"name": "worker-2"}`, `{"name": "worker-1"}`), `nodes[0] and nodes[1] have one name, "worker-1"`},
		{r(`{"name": "worker-2"}`, `{"providerID": "metal://rack-7/worker-1"}`), "have one providerID"},
		{r(`{"name": "worker-2"}`, `{"name": "worker-2", "name": "worker-3"}`), `duplicate field "nodes[1].name"`},
		{r(`{"name": "worker-2"}`, `{"name": "worker-2", "hostname": "w"}`), `unknown field "nodes[1].hostname"`},
		{r(`{"name": "worker-2"}`, `{"name": "worker 2"}`), "has spaces"},
		{r(`{"name": "worker-2"}`, `{"name": "worker\u00002"}`), "has spaces"},
		{r(`{"name": "worker-2"}`, `{"name": 2}`), "number into Go struct field .nodes.name"},
		{r(`worker-2`, strings.Repeat("w", 254)), "too long"},
		{r(`worker-2`, "worker-\xff"), "not UTF-8"},
		{r("]}", "]}{}"), "after top-level value"},
		{r("]}", "]} trailing"), "after top-level value"},
	} {
		if got, err := Decode([]byte(test.document)); err == nil || got != nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.80q: %v, %v; want %q", test.document, got, err, test.want)
		}
	}
}

// TestHalf: no beginning of an inventory is one.
func TestHalf(t *testing.T) {
	whole := strings.TrimSpace(good)
	for n := range len(whole) {
		if got, err := Decode([]byte(whole[:n])); err == nil || got != nil {
			t.Fatalf("the first %d bytes are an inventory: %+v", n, got)
		}
	}
}

// FuzzDecode: decoding any input ends, and an accepted document has what it states about itself.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"version":1,"time":"2026-11-22T12:00:00Z","complete":true,"count":1,"nodes":[{"providerID":"a\n"}]}`))
	f.Add([]byte("<html>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Decode(data)
		if (got == nil) == (err == nil) {
			t.Fatalf("%v, %v", got, err)
		}
		if err != nil {
			if len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\n\x00\x1b") {
				t.Errorf("an error that cannot be printed: %q", err)
			}
			return
		}
		names, ids := map[string]bool{}, map[string]bool{}
		for _, m := range got.Machines {
			if m.Name == "" && m.ProviderID == "" || m.Name != "" && names[m.Name] || m.ProviderID != "" && ids[m.ProviderID] || strings.ContainsAny(m.Name+m.ProviderID, " \n\x00") {
				t.Errorf("%+v in %+v", m, got)
			}
			names[m.Name], ids[m.ProviderID] = true, true
		}
	})
}
