package reclaim

import "testing"

func TestWhySpared(t *testing.T) {
	plan := []string{"oldest", "older", "new"}
	for id, want := range map[string]string{
		"gone":   "its removal is not needed any more",
		"oldest": "another image's turn comes first",
		"older":  "another image's turn comes first",
		"new":    "not more may go in this hour",
	} {
		if got := whySpared(plan, id, 2); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}
