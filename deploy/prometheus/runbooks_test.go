package prometheus

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const runbook = "https://github.com/ebb-agent/ebb/blob/main/docs/runbooks.md#"

var (
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noWord  = regexp.MustCompile("[^a-z0-9 _-]")
)

// Whoever is woken finds a section that says what to do.
func TestRunbooks(t *testing.T) {
	page, err := os.ReadFile("../../docs/runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(string(page), -1) {
		anchors[strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	for _, r := range readRules(t, ruleFiles...) {
		if r.Alert == "" {
			continue
		}
		anchor, ok := strings.CutPrefix(r.Annotations["runbook_url"], runbook)
		if !ok || !anchors[anchor] {
			t.Errorf("%s: docs/runbooks.md has no heading for %s", r.Alert, strconv.Quote(r.Annotations["runbook_url"]))
		}
	}
}
