package prometheus

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const (
	docs = "../../docs/"
	blob = "https://github.com/ebb-agent/ebb/blob/main/docs/"
)

var (
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	noWord    = regexp.MustCompile("[^a-z0-9 _-]")
	alertName = regexp.MustCompile("`(Ebb[A-Za-z]+)`")
	section   = regexp.MustCompile(`\]\((runbooks-[a-z]+\.md#[a-z0-9-]+)\)`)
)

func readPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile(docs + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// sections are the headings of a page, as a link names them: page.md#anchor.
func sections(t *testing.T, page string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(readPage(t, page), -1) {
		found[page+"#"+strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

// TestRunbooksHaveTheirParts checks that each section to which an alert links describes the impact,
// what to do, and how to see that it is over.
func TestRunbooksHaveTheirParts(t *testing.T) {
	for _, page := range []string{"runbooks-agent.md", "runbooks-controller.md"} {
		for _, text := range strings.Split(readPage(t, page), "\n## ")[1:] {
			at := 0
			for _, part := range []string{"\n**Impact.** ", "\n**Steps**\n\n1. ", "\n**Over when** "} {
				found := strings.Index(text[at:], part)
				if found < 0 {
					title, _, _ := strings.Cut(text, "\n")
					t.Errorf("%s: %s: no %q where it should be", page, title, part)
					break
				}
				at += found
			}
		}
	}
}

// listed has the section and the type of each alert in the tables of docs/runbooks.md.
func listed(t *testing.T) map[string][2]string {
	t.Helper()
	rows := map[string][2]string{}
	for row := range strings.Lines(readPage(t, "runbooks.md")) {
		cells, link := strings.Split(row, "|"), section.FindStringSubmatch(row)
		if len(cells) < 4 || link == nil {
			continue
		}
		for _, m := range alertName.FindAllStringSubmatch(cells[1], -1) {
			rows[m[1]] = [2]string{link[1], strings.TrimSpace(cells[2])}
		}
	}
	return rows
}

// TestRunbooks checks that each alert links to an existing section, and that the tables of
// docs/runbooks.md list each alert with this section and with its severity, and no other alerts.
func TestRunbooks(t *testing.T) {
	known := sections(t, "runbooks-agent.md")
	for s := range sections(t, "runbooks-controller.md") {
		known[s] = true
	}
	rows := listed(t)
	kinds := map[string]string{"critical": "page", "warning": "ticket"}
	for _, r := range readRules(t, ruleFiles...) {
		if r.Alert == "" {
			continue
		}
		to, ok := strings.CutPrefix(r.Annotations["runbook_url"], blob)
		if !ok || !known[to] {
			t.Errorf("%s: no heading for runbook_url %q", r.Alert, r.Annotations["runbook_url"])
		}
		if want := [2]string{to, kinds[r.Labels["severity"]]}; rows[r.Alert] != want {
			t.Errorf("%s: docs/runbooks.md lists %q, want %q", r.Alert, rows[r.Alert], want)
		}
		delete(rows, r.Alert)
	}
	for name := range rows {
		t.Errorf("docs/runbooks.md lists %s, which is no alert", name)
	}
}
