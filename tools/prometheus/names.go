package prometheus

import (
	"regexp"
	"slices"
	"strings"
)

// Use is one selector of an expression: the metric's name, and the label matchers.
type Use struct {
	Name     string
	Matchers []Matcher
}

// Matcher is a label and the values that it is compared with; for a regular expression,
// its alternatives.
type Matcher struct {
	Label  string
	Values []string
}

const text = `"(?:[^"\\]|\\.)*"`

var (
	selector = regexp.MustCompile(text + `|([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{(?:[^}"]|` + text + `)*\})?`)
	matcher  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"`)
	grouping = regexp.MustCompile(`\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	offTrack = regexp.MustCompile(`\[[^\]]*\]`) // durations, with or without variables of Grafana
)

// Uses returns the selectors in an expression whose names have one of the prefixes, and
// the labels by which the expression groups or joins series.
func Uses(expr string, prefixes ...string) (uses []Use, groups []string) {
	expr = offTrack.ReplaceAllString(expr, "")
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		for name := range strings.SplitSeq(m[2], ",") {
			if name = strings.TrimSpace(name); name != "" && !slices.Contains(groups, name) {
				groups = append(groups, name)
			}
		}
	}
	for _, m := range selector.FindAllStringSubmatch(grouping.ReplaceAllString(expr, "$1"), -1) {
		if !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(m[1], p) }) {
			continue
		}
		use := Use{Name: m[1]}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			values := []string{l[3]}
			if strings.HasSuffix(l[2], "~") {
				values = strings.Split(l[3], "|")
			}
			use.Matchers = append(use.Matchers, Matcher{l[1], values})
		}
		uses = append(uses, use)
	}
	return uses, groups
}

// row matches a line of a table of metrics, as in docs/metrics.md.
var row = regexp.MustCompile("(?m)^\\| `(ebb_[a-z0-9_]+)` \\| ([a-z_, ]*) \\|")

// Documented reads such a table and returns the labels of each metric. The table does not
// mark histograms. Metrics in seconds may be histograms, so they are also returned under
// the names of a histogram's series.
func Documented(markdown string) map[string][]string {
	metrics := make(map[string][]string)
	for _, m := range row.FindAllStringSubmatch(markdown, -1) {
		var labels []string
		for name := range strings.SplitSeq(m[2], ",") {
			if name = strings.TrimSpace(name); name != "" {
				labels = append(labels, name)
			}
		}
		metrics[m[1]] = labels
		if !strings.HasSuffix(m[1], "_seconds") {
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			metrics[m[1]+suffix] = append(slices.Clone(labels), "le")
		}
	}
	return metrics
}
