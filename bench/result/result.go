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

// Write prints figures as one line and writes them to dir/NAME.json.
func Write(dir, name string, figures any) error {
	line, err := json.Marshal(figures)
	if err != nil {
		return fmt.Errorf("result %s: %w", name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("result %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".json"), append(line, '\n'), 0o644); err != nil {
		return fmt.Errorf("result %s: %w", name, err)
	}
	fmt.Println(string(line))
	return nil
}

// Read reads dir/NAME.json, as Write has left it.
func Read(dir, name string, figures any) error {
	path := filepath.Join(dir, name+".json")
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("result %s: %w", name, err)
	}
	if err := json.Unmarshal(data, figures); err != nil {
		return fmt.Errorf("result %s: %w", path, err)
	}
	return nil
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

// Round keeps three digits after the point: more is noise.
func Round(v float64) float64 { return math.Round(v*1000) / 1000 }

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
