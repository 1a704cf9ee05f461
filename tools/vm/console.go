package vm

import (
	"fmt"
	"io"
	"sync"

	"github.com/ebb-agent/ebb/tools/process"
)

// cleaned passes a console on without carriage returns and the sequences by
// which firmware clears a screen: a log is read in all kinds of places. A
// sequence may come in several pieces.
type cleaned struct {
	w      io.Writer
	inside escape
}

// escape is how far into a sequence a console is.
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

// Prefixed passes whole lines on to w, each behind a prefix, so that machines
// side by side can share one screen. The mutex is common to all that share.
func Prefixed(w io.Writer, mu *sync.Mutex, prefix string) io.Writer {
	return &process.Lines{Line: func(text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(w, prefix+text)
	}}
}
