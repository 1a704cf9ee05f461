package gc_test

import (
	"testing"

	"github.com/ebb-agent/ebb/policy/gc"
)

func TestPatterns(t *testing.T) {
	for _, test := range []struct {
		patterns gc.Patterns
		name     string
		want     bool
	}{
		{nil, "ci", false},
		{gc.Patterns{"ci"}, "ci", true},
		{gc.Patterns{"ci"}, "ci-1", false},
		{gc.Patterns{"ci-*"}, "ci-", true},
		{gc.Patterns{"ci-*"}, "ci", false},
		{gc.Patterns{"qa", "ci-*"}, "ci-1", true},
		{gc.Patterns{"*"}, "anything", true},
		{gc.Patterns{"*"}, "example.com/serving", false},
		{gc.Patterns{"example.com/*"}, "example.com/serving", true},
		{gc.Patterns{"example.com/*"}, "sub.example.com/serving", false},
		{gc.Patterns{"ci-["}, "ci-[", false}, // no pattern
		{gc.Patterns{"ci-[", "ci-*"}, "ci-[", true},
	} {
		if got := test.patterns.Match(test.name); got != test.want {
			t.Errorf("%q match %q: %v", test.patterns, test.name, got)
		}
	}
}
