package process

import "bytes"

// Lines is a writer that calls Line with each complete line, without its line feed.
type Lines struct {
	Line func(text string)
	rest []byte // start of an incomplete line
}

func (l *Lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.rest = rest
		l.Line(string(line))
	}
}

// Flush calls Line with an incomplete last line, if there is one.
func (l *Lines) Flush() {
	if len(l.rest) > 0 {
		l.Line(string(l.rest))
		l.rest = nil
	}
}
