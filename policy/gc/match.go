package gc

import (
	"path"
	"slices"
)

// Patterns name namespaces, signers and the like: "ci-*". An asterisk stands for any
// letters but a slash, as in [path.Match]; a pattern that is none names nothing.
type Patterns []string

// Match says whether one of them names it.
func (p Patterns) Match(name string) bool {
	return slices.ContainsFunc(p, func(pattern string) bool {
		is, err := path.Match(pattern, name)
		return is && err == nil
	})
}
