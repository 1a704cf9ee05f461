package image

import (
	"strings"
	"testing"
)

const digest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestKeepRuleMatch(t *testing.T) {
	for _, test := range []struct {
		rule string
		yes  []string
		no   []string
	}{
		{
			rule: "docker.io/library/busybox",
			yes:  []string{"docker.io/library/busybox", "docker.io/library/busybox:1.36", "docker.io/library/busybox" + digest, "docker.io/library/busybox:1.36" + digest},
			no:   []string{"busybox", "docker.io/library/busybox2:1", "docker.io/library/busybox/sub:1", "xdocker.io/library/busybox"},
		},
		{
			rule: "registry.k8s.io/pause:*",
			yes:  []string{"registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.9" + digest},
			no:   []string{"registry.k8s.io/pause", "registry.k8s.io/pause" + digest, "registry.k8s.io/pausex:3.9", "registry.k8s.io/x/pause:3.9"},
		},
		{
			rule: "registry.k8s.io/pause:3.9",
			yes:  []string{"registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.9" + digest},
			no:   []string{"registry.k8s.io/pause:3.90", "registry.k8s.io/pause:3x9"},
		},
		{
			rule: "docker.io/library/busybox" + digest,
			yes:  []string{"docker.io/library/busybox" + digest, "docker.io/library/busybox:1.36" + digest},
			no:   []string{"docker.io/library/busybox:1.36"},
		},
		{
			rule: "docker.io/library/**",
			yes:  []string{"docker.io/library/busybox:1", "docker.io/library/a/b/c:1" + digest},
			no:   []string{"docker.io/other/busybox:1", "docker.io/library"},
		},
		{
			rule: "docker.io/*/busybox",
			yes:  []string{"docker.io/library/busybox:1", "docker.io/me/busybox"},
			no:   []string{"docker.io/a/b/busybox:1", "docker.io/busybox"},
		},
		{
			rule: "**/busybox",
			yes:  []string{"docker.io/a/b/busybox:1", "localhost:5000/busybox"},
			no:   []string{"busybox", "docker.io/notbusybox"},
		},
		{
			// The port's colon is not a tag's.
			rule: "localhost:5000/app",
			yes:  []string{"localhost:5000/app", "localhost:5000/app:v1"},
			no:   []string{"localhost:5000/apple", "localhost"},
		},
		{
			rule: "localhost",
			yes:  []string{"localhost", "localhost:5000"}, // the latter is a name with a tag
			no:   []string{"localhost:5000/app"},
		},
		{rule: "example.com/app-v?", yes: []string{"example.com/app-v1:x"}, no: []string{"example.com/app-v", "example.com/app-v10", "example.com/app-v/"}},
		{rule: "example.com/a+b", yes: []string{"example.com/a+b"}, no: []string{"example.com/aab", "exampleXcom/a+b"}},
		{rule: "**", yes: []string{"", "a", "a/b:c" + digest, "line\nbreak/\xff"}},
		{rule: "*", yes: []string{"demo:latest", ""}, no: []string{"example.com/demo:latest"}},
	} {
		r, err := ParseKeepRule(test.rule)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if r.String() != test.rule {
			t.Errorf("rule %q prints as %q", test.rule, r)
		}
		for _, reference := range test.yes {
			if !r.Match(reference) {
				t.Errorf("rule %q does not keep %q", test.rule, reference)
			}
		}
		for _, reference := range test.no {
			if r.Match(reference) {
				t.Errorf("rule %q keeps %q", test.rule, reference)
			}
		}
	}
}

func TestZeroKeepRuleKeepsNothing(t *testing.T) {
	if (KeepRule{}).Match("") {
		t.Error("the zero rule keeps an image")
	}
}

func TestParseKeepRuleRefuses(t *testing.T) {
	for rule, want := range map[string]string{
		"":                                    "is empty",
		" docker.io/x":                        "white space",
		"docker.io/\tx":                       "white space",
		"docker.io/\x00":                      "control character",
		"https://docker.io/x":                 "has a scheme",
		"docker.io/***":                       "more than two *",
		"docker.io/[ab]":                      `contains '['`,
		"docker.io/{a,b}":                     `contains '{'`,
		`docker.io/a\*`:                       `contains '\\'`,
		"docker.io/\xff":                      "is not UTF-8",
		strings.Repeat("a", maxKeepRule+1):    "at most 512",
		"docker.io/" + strings.Repeat("*", 9): "more than two *",
	} {
		_, err := ParseKeepRule(rule)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("rule %q: error %v, want one with %q", rule, err, want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "keep rule ") {
			t.Errorf("error %q does not name the rule", err)
		}
	}
}

func TestParseKeepRulesReportsAll(t *testing.T) {
	_, err := ParseKeepRules([]string{"", "docker.io/fine", "http://x"})
	if err == nil || !strings.Contains(err.Error(), "is empty") || !strings.Contains(err.Error(), "has a scheme") {
		t.Errorf("error %v, want both problems", err)
	}
}

func TestKeepRulesMatch(t *testing.T) {
	rules, err := ParseKeepRules([]string{"registry.k8s.io/pause", "docker.io/library/**"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		references []string
		want       string
	}{
		{nil, ""},
		{[]string{"example.com/app:1"}, ""},
		{[]string{"registry.k8s.io/pause:3.9"}, "registry.k8s.io/pause"},
		// One kept name keeps the image.
		{[]string{"example.com/copy:1", "docker.io/library/busybox:1"}, "docker.io/library/**"},
		// The first rule is named, whatever the order of the names.
		{[]string{"docker.io/library/busybox:1", "registry.k8s.io/pause:3.9"}, "registry.k8s.io/pause"},
	} {
		if got := rules.Match(test.references); got != test.want {
			t.Errorf("%q are kept by %q, want %q", test.references, got, test.want)
		}
	}
	if got := KeepRules(nil).Match([]string{"a"}); got != "" {
		t.Errorf("no rules keep an image by %q", got)
	}
}

func FuzzKeepRule(f *testing.F) {
	f.Add("docker.io/library/**", "docker.io/library/busybox:1")
	f.Add("a*?**b", "a@b:c/d")
	f.Add("registry.k8s.io/pause:*", "registry.k8s.io/pause:3.9"+digest)
	f.Fuzz(func(t *testing.T, rule, reference string) {
		r, err := ParseKeepRule(rule)
		if err != nil {
			return
		}
		r.Match(reference)
		// A rule without special characters keeps exactly its own name.
		if !strings.ContainsAny(rule, "*?") && !r.Match(rule) {
			t.Errorf("rule %q does not keep itself", rule)
		}
	})
}
