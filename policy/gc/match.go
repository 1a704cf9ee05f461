package gc

import (
	"path"
	"slices"
)

// Patterns match namespaces, signers and the like: "ci-*". An asterisk matches any
// characters except a slash, as in [path.Match]. An invalid pattern matches nothing.
type Patterns []string

// Match reports whether a pattern matches name.
func (p Patterns) Match(name string) bool {
	return slices.ContainsFunc(p, func(pattern string) bool {
		is, err := path.Match(pattern, name)
		return is && err == nil
	})
}
