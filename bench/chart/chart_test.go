package chart

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawn is what a picture consists of, read back by an XML parser.
type drawn struct {
	paths []string // their d
	texts []string
}

func parse(t rapid.TB, picture string) (d drawn) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(picture))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return d
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, picture)
		}
		switch e := token.(type) {
		case xml.StartElement:
			for _, a := range e.Attr {
				if a.Name.Local == "d" {
					d.paths = append(d.paths, a.Value)
				}
			}
		case xml.CharData:
			if s := strings.TrimSpace(string(e)); s != "" {
				d.texts = append(d.texts, s)
			}
		}
	}
}

var step = regexp.MustCompile(`([MLHV])(-?[0-9.]+)(?: (-?[0-9.]+))?`)

// points are the places that a path leads to.
func points(t rapid.TB, path string) (list [][2]float64) {
	t.Helper()
	if step.ReplaceAllString(path, "") != "" {
		t.Fatalf("not a path of M, L, H and V: %q", path)
	}
	var at [2]float64
	for _, m := range step.FindAllStringSubmatch(path, -1) {
		first, _ := strconv.ParseFloat(m[2], 64)
		second, _ := strconv.ParseFloat(m[3], 64)
		switch m[1] {
		case "H":
			at[0] = first
		case "V":
			at[1] = first
		default:
			at = [2]float64{first, second}
		}
		list = append(list, at)
	}
	return list
}

func write(t rapid.TB, c Chart) string {
	t.Helper()
	var b strings.Builder
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Whatever the points and the texts are: well-formed, each line there, nothing outside
// the picture, and no line outside the frame.
func TestAnyChart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Chart{Title: rapid.String().Draw(t, "title"), From: rapid.Float64Range(1e-6, 1).Draw(t, "from"), Levels: []Level{{80, "<high>"}}}
		c.To = c.From * rapid.Float64Range(2, 1e9).Draw(t, "to")
		for i := range rapid.IntRange(0, 6).Draw(t, "lines") {
			l := Line{Label: fmt.Sprint("line ", i), Notes: rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "notes"), Colour: rapid.SampledFrom([]string{"#123", `"><x`}).Draw(t, "colour")}
			for range rapid.IntRange(1, 9).Draw(t, "points") {
				l.Points = append(l.Points, Point{rapid.Float64().Draw(t, "at"), rapid.Float64Range(-50, 150).Draw(t, "percent")})
			}
			c.Lines = append(c.Lines, l)
		}
		d := parse(t, write(t, c))
		for _, path := range d.paths {
			for _, p := range points(t, path) {
				label := p[0] > right && p[0] < right+labelGap // leads to a label
				if p[0] < left || p[0] > right && !label || p[1] < top || p[1] > bottom {
					t.Fatalf("%v is outside the frame: %q", p, path)
				}
			}
		}
		for _, l := range c.Lines {
			if !slices.Contains(d.texts, l.Label) {
				t.Fatalf("no label %q in %q", l.Label, d.texts)
			}
		}
	})
}

func TestSteps(t *testing.T) {
	c := Chart{From: 1, To: 100, Lines: []Line{{Points: []Point{{0, 100}, {10, 50}, {100, 0}}, Colour: "#000"}}}
	middle := (left + right) / 2 // 10 is in the middle between 1 and 100
	want := fmt.Sprintf("M%.1f %.1fH%.1fV%.1fH%.1fV%.1f", left, top, middle, (top+bottom)/2, right, bottom)
	if d := parse(t, write(t, c)); !slices.Contains(d.paths, want) {
		t.Fatalf("no path %q in %q", want, d.paths)
	}
}

func TestWhatCannotBeDrawn(t *testing.T) {
	for name, c := range map[string]Chart{
		"from zero":    {From: 0, To: 1},
		"to the left":  {From: 2, To: 1},
		"not a number": {From: 1, To: 2, Lines: []Line{{Points: []Point{{1, math.NaN()}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.Write(io.Discard); err == nil {
				t.Fatal("no error")
			}
		})
	}
}

// Labels keep their order, their distance and their bounds; those that have room stay.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const low, high, gap = 10.0, 110.0, 20.0
		heights := rapid.SliceOfN(rapid.Float64Range(-20, 150), 0, 6).Draw(t, "heights")
		got := spread(heights, gap, low, high)
		if len(got) != len(heights) {
			t.Fatalf("%d became %d", len(heights), len(got))
		}
		alone := true
		for i := range got {
			if got[i] < low-1e-9 || got[i] > high+1e-9 {
				t.Fatalf("%v: out of bounds", got)
			}
			alone = alone && heights[i] >= low && heights[i] <= high
			for j := range i {
				if math.Abs(got[i]-got[j]) < gap-1e-9 || heights[i] < heights[j] && got[i] > got[j] {
					t.Fatalf("%v became %v", heights, got)
				}
				alone = alone && math.Abs(heights[i]-heights[j]) >= gap+1e-9
			}
		}
		if alone && !slices.Equal(got, heights) {
			t.Fatalf("%v had room and became %v", heights, got)
		}
	})
}
