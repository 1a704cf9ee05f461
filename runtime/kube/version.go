package kube

import (
	"cmp"
	"strings"
)

// older tells whether one resource version is from before another. Those of pods are
// decimal numbers that only grow, as long as the history is the same one (KEP-5504);
// of anything else nothing is known, and false is said.
func older(version, than string) bool {
	if !decimal(version) || !decimal(than) {
		return false
	}
	version, than = strings.TrimLeft(version, "0"), strings.TrimLeft(than, "0")
	return cmp.Or(cmp.Compare(len(version), len(than)), cmp.Compare(version, than)) < 0
}

func decimal(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
