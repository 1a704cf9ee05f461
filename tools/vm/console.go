package vm

import (
	"bytes"
	"io"
	"sync"
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
	return &prefixed{w: w, mu: mu, prefix: prefix}
}

type prefixed struct {
	w      io.Writer
	mu     *sync.Mutex
	prefix string
	rest   []byte // of a line without its end
}

func (l *prefixed) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		if err := l.line(line); err != nil {
			return 0, err
		}
		l.rest = rest
	}
}

func (l *prefixed) line(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.w.Write(append(append([]byte(l.prefix), text...), '\n'))
	return err
}

// tail remembers the end of what is written to it.
type tail struct{ text []byte }

const tailBytes = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if extra := len(t.text) - tailBytes; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

// String leaves out a first line that has lost its beginning.
func (t *tail) String() string {
	text := t.text
	if len(text) == tailBytes {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return string(text)
}
