package vm

import (
	"fmt"
	"io"
	"sync"

	"github.com/ebb-agent/ebb/tools/process"
)

// cleaned writes a console without carriage returns and escape sequences, such as those
// by which firmware clears a screen, so that the log is plain text. A sequence may be
// split over several writes.
type cleaned struct {
	w      io.Writer
	inside escape
}

// escape is the state of a console within an escape sequence.
type escape int

const (
	escapeNone escape = iota
	escapeBegun
	escapeParameters // after ESC [: ends with a letter
)

func (c *cleaned) Write(p []byte) (int, error) {
	var text []byte
	for _, b := range p {
		switch {
		case b == 0x1b:
			c.inside = escapeBegun
		case c.inside == escapeBegun && b == '[':
			c.inside = escapeParameters
		case c.inside == escapeBegun, c.inside == escapeParameters && b >= '@':
			c.inside = escapeNone
		case c.inside == escapeNone && b != '\r':
			text = append(text, b)
		}
	}
	if _, err := c.w.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Prefixed returns a writer that writes whole lines to w, each with a prefix, so that
// several machines can share one screen. All writers of one screen share mu.
func Prefixed(w io.Writer, mu *sync.Mutex, prefix string) io.Writer {
	return &process.Lines{Line: func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(w, prefix+text)
	}}
}
