package config

import "strings"

// Patterns name types as kubectl does: RESOURCE or RESOURCE.GROUP, where RESOURCE
// may be * for a whole group.
type Patterns []string

// Match reports whether one of the patterns names a type.
func (p Patterns) Match(resource, group string) bool {
	for _, pattern := range p {
		r, g, _ := strings.Cut(pattern, ".")
		if g == group && (r == "*" || r == resource) {
			return true
		}
	}
	return false
}
