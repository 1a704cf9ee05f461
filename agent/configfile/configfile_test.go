package configfile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

type sample struct {
	Name  string   `json:"name"`
	Count int      `json:"count"`
	Share float64  `json:"share"`
	On    bool     `json:"active"`
	Wait  Duration `json:"wait"`
	List  []string `json:"list"`
	Parts []part   `json:"parts"`
	Word  word     `json:"word"`
}

type part struct {
	Size int `json:"size"`
}

// word accepts a number, too.
type word string

func (w *word) UnmarshalJSON(data []byte) error {
	if string(data) == "7" {
		*w = "seven"
		return nil
	}
	return json.Unmarshal(data, (*string)(w))
}

func none(map[string]bool) []error { return nil }

func TestDecode(t *testing.T) {
	s := sample{Name: "default", List: []string{"default"}, Parts: []part{{1}}}
	if err := Decode(nil, &s, none); err != nil || s.Name != "default" {
		t.Errorf("an empty document: %v, %+v", err, s)
	}
	const all = "name: x\ncount: -3\nshare: 0.5\nactive: true\nwait: 1h30m\nlist: [a, b]\nparts: [{size: 2}, {}]\nword: 7\n"
	if err := Decode([]byte(all), &s, none); err != nil {
		t.Fatal(err)
	}
	if s.Name != "x" || s.Count != -3 || s.Share != 0.5 || !s.On || s.Wait != Duration(90*time.Minute) || len(s.List) != 2 || len(s.Parts) != 2 || s.Parts[0].Size != 2 || s.Word != "seven" {
		t.Errorf("%+v", s)
	}
}

// Each problem is an error that names its field; what could not be read is passed on.
func TestProblems(t *testing.T) {
	const wrong = "name: [n]\ncount: 1.5\nshare: much\nactive: \"yes\"\nwait: 5\nlist: a\nparts: [{size: 99999999999}, 7, {colour: red}]\nword: true\nother: 1\n"
	var s sample
	var seen map[string]bool
	err := Decode([]byte(wrong), &s, func(bad map[string]bool) []error { seen = bad; return nil })
	if err == nil {
		t.Fatal("it was taken")
	}
	want := strings.Split(`active: want true or false, got the string "yes"
count: want a whole number, got 1.5
list: want a list, got the string "a"
name: want a string, got a list
other: unknown field (known here: name, count, share, active, wait, list, parts, word)
parts[0].size: want a whole number, got 99999999999
parts[1]: want a mapping, got 7
parts[2].colour: unknown field (known here: size)
share: want a number, got the string "much"
wait: want a duration such as "90s" or "12h45m", got 5
word: want a string, got true`, "\n")
	if got := err.Error(); got != strings.Join(want, "\n") {
		t.Errorf("got:\n%s", got)
	}
	for _, line := range want {
		if field, _, _ := strings.Cut(line, ": "); !seen[field] {
			t.Errorf("%s counts as read", field)
		}
	}
	for _, text := range []string{"name: a\nname: b\n", "\tname: a", "- a\n", "name:\n"} {
		if err := Decode([]byte(text), &sample{}, none); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestDurationString(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 5 * time.Minute: "5m", 24 * time.Hour: "24h", 90 * time.Second: "1m30s", 10*time.Hour + time.Second: "10h0m1s"} {
		if got := Duration(d).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
