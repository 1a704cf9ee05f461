// Package chart draws step lines over a logarithmic time axis for the benchmarks' reports, as an
// SVG of text and paths only.
//
// Each line is labelled at its end instead of in a legend. The background is white, so that the
// picture looks the same everywhere. A point outside the axes is drawn at the edge of the frame.
// The same chart gives the same bytes.
package chart

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// Chart is a picture: percentages from 0 to 100 over time.
type Chart struct {
	Title  string
	Text   string // description for readers who cannot see it
	XLabel string
	YLabel string
	From   float64 // start of the time axis, above 0
	To     float64
	Ticks  []Tick
	Levels []Level
	Lines  []Line // later lines are drawn over earlier ones
}

// Tick is a mark on the axis of time.
type Tick struct {
	At    float64
	Label string
}

// Level is a labelled horizontal line, such as a threshold.
type Level struct {
	Percent float64
	Label   string // drawn below the line
}

// Line is a step line: a point's percentage holds until the time of the next point. From the last
// point to the right edge it is dotted, because nothing was measured there.
type Line struct {
	Label  string
	Notes  []string // below the label, smaller; two at most
	Colour string
	Points []Point // by time
}

// Point is a moment and a percentage.
type Point struct{ At, Percent float64 }

// The measures of the picture, in its own units.
const (
	width, height       = 960.0, 440.0
	left, right         = 64.0, 720.0 // of the frame
	top, bottom         = 52.0, 380.0
	lineSpace           = 54.0 // from label to label
	labelGap, textDepth = 14.0, 4.0
)

func (c Chart) x(at float64) float64 {
	at = math.Min(math.Max(at, c.From), c.To)
	return left + (right-left)*math.Log(at/c.From)/math.Log(c.To/c.From)
}

func y(percent float64) float64 {
	return bottom - (bottom-top)*math.Min(math.Max(percent, 0), 100)/100
}

// Write writes the picture.
func (c Chart) Write(w io.Writer) error {
	if !(c.From > 0 && c.To > c.From) {
		return fmt.Errorf("chart %q: an axis from %v to %v", c.Title, c.From, c.To)
	}
	for _, l := range c.Lines {
		for _, p := range l.Points {
			if math.IsNaN(p.At) || math.IsNaN(p.Percent) {
				return fmt.Errorf("chart %q: %s has a point that is no number", c.Title, l.Label)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img" font-family="system-ui, sans-serif" font-size="13" fill="#222">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<desc>%s</desc>\n", escape(c.Title), escape(c.Text))
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="#fff"/>`+"\n", width, height)
	text(&b, left, 28, `font-size="16" font-weight="600"`, c.Title)
	c.axes(&b)
	for _, l := range c.Levels {
		fmt.Fprintf(&b, `<path d="M%.1f %.1fH%.1f" stroke="#888" stroke-dasharray="5 4"/>`+"\n", left, y(l.Percent), right)
		text(&b, left+6, y(l.Percent)+12, `font-size="11" fill="#666"`, l.Label)
	}
	for _, l := range c.Lines {
		c.line(&b, l)
	}
	c.labels(&b)
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (c Chart) axes(b *strings.Builder) {
	for p := 0.0; p <= 100; p += 20 {
		fmt.Fprintf(b, `<path d="M%.1f %.1fH%.1f" stroke="#e4e4e4"/>`+"\n", left, y(p), right)
		text(b, left-8, y(p)+textDepth, `text-anchor="end"`, fmt.Sprintf("%g", p))
	}
	for _, t := range c.Ticks {
		fmt.Fprintf(b, `<path d="M%.1f %.1fV%.1f" stroke="#e4e4e4"/>`+"\n", c.x(t.At), top, bottom)
		text(b, c.x(t.At), bottom+20, `text-anchor="middle"`, t.Label)
	}
	fmt.Fprintf(b, `<path d="M%.1f %.1fV%.1fH%.1f" fill="none" stroke="#222"/>`+"\n", left, top, bottom, right)
	text(b, (left+right)/2, bottom+44, `text-anchor="middle"`, c.XLabel)
	fmt.Fprintf(b, `<text transform="translate(18 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", (top+bottom)/2, escape(c.YLabel))
}

func (c Chart) line(b *strings.Builder, l Line) {
	if len(l.Points) == 0 {
		return
	}
	var d strings.Builder
	for i, p := range l.Points {
		if i == 0 {
			fmt.Fprintf(&d, "M%.1f %.1f", c.x(p.At), y(p.Percent))
			continue
		}
		fmt.Fprintf(&d, "H%.1fV%.1f", c.x(p.At), y(p.Percent))
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="2.5" stroke-linejoin="round"/>`+"\n", d.String(), escape(l.Colour))
	end := l.Points[len(l.Points)-1]
	fmt.Fprintf(b, `<path d="M%.1f %.1fH%.1f" stroke="%s" stroke-width="2" stroke-dasharray="1.5 4"/>`+"\n",
		c.x(end.At), y(end.Percent), right, escape(l.Colour))
}

// labels puts each line's name beside its end and connects the two with a thin line, because it
// moves labels apart where several lines end near each other.
func (c Chart) labels(b *strings.Builder) {
	var ends []float64
	var lines []Line
	for _, l := range c.Lines {
		if n := len(l.Points); n > 0 {
			ends, lines = append(ends, y(l.Points[n-1].Percent)), append(lines, l)
		}
	}
	for i, at := range spread(ends, lineSpace, top+8, bottom-30) {
		l := lines[i]
		fmt.Fprintf(b, `<path d="M%.1f %.1fL%.1f %.1f" stroke="%s"/>`+"\n", right+2, ends[i], right+labelGap-2, at, escape(l.Colour))
		text(b, right+labelGap+2, at+textDepth, `font-weight="600" fill="`+escape(l.Colour)+`"`, l.Label)
		for n, note := range l.Notes[:min(len(l.Notes), 2)] {
			text(b, right+labelGap+2, at+textDepth+15*float64(n+1), `font-size="12"`, note)
		}
	}
}

func text(b *strings.Builder, x, y float64, attributes, s string) {
	if s != "" {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" %s>%s</text>`+"\n", x, y, attributes, escape(s))
	}
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}
