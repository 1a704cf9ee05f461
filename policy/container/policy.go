package container

import (
	"fmt"
	"strings"
)

// DefaultPolicy returns the kubelet's defaults: the last dead container of each name in a pod
// is kept, however old.
func DefaultPolicy() Policy {
	return Policy{MaxPerPodContainer: 1, MaxContainers: -1}
}

// FieldError is one thing wrong with a field of a Policy. Field is its name in Go; the
// configuration knows the name that the operator wrote.
type FieldError struct {
	Field   string
	Problem string // "must not be negative: -1s"
}

func (e FieldError) Error() string { return e.Field + " " + e.Problem }

// Validate returns everything that is wrong with the policy; nil if nothing is. With an
// invalid policy, Decide removes nothing.
func (p Policy) Validate() []FieldError {
	var problems []FieldError
	if p.MinAge < 0 {
		problems = append(problems, FieldError{"MinAge", fmt.Sprintf("must not be negative: %v", p.MinAge)})
	}
	if p.StartGrace < 0 {
		problems = append(problems, FieldError{"StartGrace", fmt.Sprintf("must not be negative: %v", p.StartGrace)})
	}
	if p.AgeFrom > FromTermination {
		problems = append(problems, FieldError{"AgeFrom", fmt.Sprintf("must be %d or %d, not %d", FromCreation, FromTermination, p.AgeFrom)})
	}
	return problems
}

func joinProblems(problems []FieldError) string {
	words := make([]string, len(problems))
	for i, p := range problems {
		words[i] = p.Error()
	}
	return strings.Join(words, "; ")
}
