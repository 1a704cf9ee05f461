package chart

import (
	"fmt"
	"strings"
)

const (
	tableBegins = "<!-- values: made from deploy/chart/values.yaml by make manifests -->\n"
	tableEnds   = "<!-- end of values -->\n"
)

// Reference replaces the table of values between the marks of a page.
func Reference(page []byte, values []Value) ([]byte, error) {
	before, rest, ok := strings.Cut(string(page), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !ok || !ends {
		return nil, fmt.Errorf("the page has no marks %q and %q", strings.TrimSpace(tableBegins), strings.TrimSpace(tableEnds))
	}
	var b strings.Builder
	b.WriteString("| value | default | |\n|---|---|---|\n")
	for _, v := range leaves(values) {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", v.Path, cell(v.text()), cell(v.Doc))
	}
	return []byte(before + tableBegins + b.String() + tableEnds + after), nil
}

// cell escapes the character that would end a table cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
