// Package result prints the figures of a benchmark or of the demo as one line of JSON, with the
// unit in each key, and writes them to bench/results/NAME.json. It also renders sections of
// RESULTS.md from them.
package result

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Dir is the directory of the published results, from which pages are rendered.
const Dir = "bench/results"

// Whole returns dir. It returns "" if only part of a benchmark runs and dir is the default: a
// published result comes from one whole run.
func Whole(dir, only string) string {
	if only != "" && filepath.Clean(dir) == Dir {
		return ""
	}
	return dir
}

// WholeSoak is how long a soak lasts whose figures are published, on each filesystem.
const WholeSoak = 20 * time.Minute

// Write prints figures as one line of JSON and writes them, with their origin, to dir/NAME.json. If
// dir is "", it only prints.
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

// Read reads the figures of dir/NAME.json, as Write has written it, without their origin.
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

// Spread summarizes several runs of one measurement.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Runs   int     `json:"runs"`
}

// SpreadOf returns the spread of values, or the zero Spread if there are none.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	return Spread{Round(Median(values)), Round(slices.Min(values)), Round(slices.Max(values)), len(values)}
}

// String returns the median, and the minimum and maximum in parentheses if there were several runs.
// It returns "" if nothing was measured.
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

// Median returns the median of values by nearest rank, or NaN if there are none.
func Median(values []float64) float64 { return Percentile(values, 50) }

// Round keeps three digits after the point: more is noise. NaN, the value of an empty set, becomes
// 0.
func Round(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return math.Round(v*1000) / 1000
}

// Figure formats v with three significant digits, or with all digits before the point. It returns
// "" for 0, which means not measured.
func Figure(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
