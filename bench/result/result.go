// Package result prints what a benchmark or the demo found: one line of JSON,
// figures with the unit in the key, also written to bench/results/NAME.json.
package result

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Dir is where results are that pages are made of.
const Dir = "bench/results"

// Whole is dir, but "" for a part of a benchmark that nobody has named another directory
// for: a result is of one run.
func Whole(dir, only string) string {
	if only != "" && filepath.Clean(dir) == Dir {
		return ""
	}
	return dir
}

// Write prints figures as one line and writes them, with their origin, to dir/NAME.json; for
// "" nowhere.
func Write(dir, name string, figures any) error {
	line, err := json.Marshal(figures)
	if err != nil {
		return fmt.Errorf("result %s: %w", name, err)
	}
	fmt.Println(string(line))
	if dir == "" {
		return nil
	}
	origin, err := NewOrigin()
	if err == nil {
		line, err = withOrigin(origin, line)
	}
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".json"), append(line, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("result %s: %w", name, err)
	}
	return nil
}

// Read reads the figures of dir/NAME.json, as Write has left it.
func Read(dir, name string, figures any) error {
	var all map[string]json.RawMessage
	if err := read(dir, name, &all); err != nil {
		return err
	}
	delete(all, "origin")
	text, err := json.Marshal(all)
	if err == nil {
		err = json.Unmarshal(text, figures)
	}
	if err != nil {
		return fmt.Errorf("result %s: %w", name, err)
	}
	return nil
}

func read(dir, name string, v any) error {
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("result %s: %w", name, err)
	}
	return nil
}

// Spread is what several runs of the same gave.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"`
}

// SpreadOf some values; the zero value for none.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	return Spread{Round(Median(values)), Round(slices.Min(values)), Round(slices.Max(values)), len(values)}
}

// String is the median, and in parentheses the least and the most; "" for what was not measured.
func (s Spread) String() string {
	if s.Runs < 2 {
		return Figure(s.Median)
	}
	return fmt.Sprintf("%s (%s-%s)", Figure(s.Median), Figure(s.Min), Figure(s.Max))
}

// Percentile returns the smallest value that at least p percent of the values
// do not exceed (nearest rank). It is NaN for no values.
func Percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median of some values; NaN for none.
func Median(values []float64) float64 { return Percentile(values, 50) }

// Round keeps three digits after the point: more is noise. NaN, which is of no values, is 0.
func Round(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return math.Round(v*1000) / 1000
}

// Figure shows a value with three digits that count, or all before the point; nothing
// for 0, which is what was not measured.
func Figure(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
