package desk

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestOnePodANode: of a node's pods the one that is most likely at work counts.
func TestOnePodANode(t *testing.T) {
	const ready = `"conditions":[{"type":"Ready","status":"True"}]`
	order := []string{ // each is better than those below it
		`{"metadata":{"name":"a","creationTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Running",` + ready + `}}`,
		`{"metadata":{"name":"b","creationTimestamp":"2026-01-03T00:00:00Z"},"status":{"phase":"Running"}}`,
		`{"metadata":{"name":"c","creationTimestamp":"2026-01-02T00:00:00Z"},"status":{"phase":"Pending"}}`,
		`{"metadata":{"name":"d","creationTimestamp":"2026-01-05T00:00:00Z","deletionTimestamp":"2026-01-06T00:00:00Z"},"status":{"phase":"Running",` + ready + `}}`,
		`{"metadata":{"name":"e","creationTimestamp":"2026-01-04T00:00:00Z"},"status":{"phase":"Failed"}}`,
	}
	var pods []pod
	for _, text := range order {
		var p pod
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		pods = append(pods, p)
	}
	for i, p := range pods {
		for j, than := range pods {
			if p.better(than) != (i < j) {
				t.Errorf("%s better than %s: %t", p.Name, than.Name, p.better(than))
			}
		}
	}
}

func TestCompare(t *testing.T) {
	for theirs, want := range map[string]string{
		"":                  "older than this command (0.2.0+gabc)",
		"0.1.9":             "0.1.9, older than this command (0.2.0+gabc)",
		"0.2.0-rc.1":        "0.2.0-rc.1, older than this command (0.2.0+gabc)",
		"0.2.0+gdef.dirty":  "0.2.0+gdef.dirty, another build than this command (0.2.0+gabc)",
		"0.10.0":            "0.10.0, newer than this command (0.2.0+gabc)",
		"yesterday's\x1b[m": "yesterday's\ufffd[m, another build than this command (0.2.0+gabc)",
	} {
		if got := compare(theirs, "0.2.0+gabc"); got != want {
			t.Errorf("%q: %q, want %q", theirs, got, want)
		}
	}
}

// TestHead: however much a command prints, a bounded part of it is kept.
func TestHead(t *testing.T) {
	var h head
	for range 10 {
		if n, err := h.Write([]byte(strings.Repeat("x", 1000))); n != 1000 || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(h.String()) != maxStderr {
		t.Errorf("%d bytes", len(h.String()))
	}
}
