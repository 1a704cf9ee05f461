package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// screen writes the demo's output. It uses colours on a terminal only.
type screen struct {
	out       io.Writer
	colour    bool
	mu        sync.Mutex
	high, low float64
}

func newScreen(out *os.File) *screen {
	info, err := out.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &screen{out: out, colour: terminal && os.Getenv("NO_COLOR") == ""}
}

const (
	bold   = "1"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	dim    = "2"
)

func (s *screen) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) print(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format, args...)
}

func (s *screen) title(lines ...string) {
	for _, l := range lines {
		s.print("%s\n", s.paint(bold, l))
	}
}

func (s *screen) step(format string, args ...any) {
	s.print("\n%s\n", s.paint(bold, fmt.Sprintf(format, args...)))
}

func (s *screen) thresholds(high, low float64) { s.high, s.low = high, low }

func (s *screen) say(what, format string, args ...any) { s.sayIn(cyan, what, format, args...) }

func (s *screen) sayIn(colour, what, format string, args ...any) {
	s.print("  %s  %s %s\n", s.paint(dim, time.Now().Format("15:04:05.000")), s.paint(colour, fmt.Sprintf("%-8s", what)), fmt.Sprintf(format, args...))
}

// gauge draws the disk's usage, with the two thresholds.
func (s *screen) gauge(percent float64) {
	const width = 50
	var b strings.Builder
	for i := range width {
		from, to := float64(i)*100/width, float64(i+1)*100/width
		switch {
		case s.high > from && s.high <= to, s.low > from && s.low <= to:
			b.WriteByte('|')
		case percent >= to:
			b.WriteByte('#')
		default:
			b.WriteByte('.')
		}
	}
	colour := green
	if s.high > 0 && percent >= s.low {
		colour = yellow
	}
	s.sayIn(colour, "disk", "[%s] %5.1f %%", b.String(), percent)
}

// output shows a command and its output.
func (s *screen) output(command, text string) {
	s.print("\n  %s\n", s.paint(bold, "$ "+command))
	for line := range strings.Lines(text) {
		s.print("  %s", line)
	}
}
