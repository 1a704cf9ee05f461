// Headline writes README's table of what was measured from the latest runs in
// bench/results: go run ./bench/headline. A test keeps the two equal.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/ebb-agent/ebb/bench/result"
)

//go:embed table.md.tmpl
var table string

func main() {
	results := flag.String("results", "bench/results", "directory of the figures")
	readme := flag.String("readme", "README.md", "the page with the section \"measured\"")
	flag.Parse()
	text, err := render(*results)
	if err == nil {
		err = result.Section(*readme, "measured", text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "headline:", err)
		os.Exit(1)
	}
}

// render makes the table of the figures in a directory. A figure that is not
// there is an error, not a gap.
func render(results string) (string, error) {
	figures := map[string]map[string]any{}
	for _, name := range []string{"node", "containers", "cascade", "collectors"} {
		path := filepath.Join(results, name+".json")
		text, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("render: %w", err)
		}
		var run map[string]any
		if err := json.Unmarshal(text, &run); err != nil {
			return "", fmt.Errorf("render %s: %w", path, err)
		}
		figures[name] = run
	}
	t, err := template.New("table").Option("missingkey=error").Funcs(template.FuncMap{"f": format}).Parse(table)
	if err != nil {
		return "", fmt.Errorf("render: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, figures); err != nil {
		return "", fmt.Errorf("render: %w", err)
	}
	return out.String(), nil
}

// format shows a figure with that many digits after the point, and thousands apart.
func format(digits int, v float64) string {
	s := fmt.Sprintf("%.*f", digits, v)
	whole := len(s)
	if digits > 0 {
		whole -= digits + 1
	}
	for i := whole - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
