package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
)

// visible escapes what a terminal would interpret in a text of several lines.
func visible(s string) string {
	plain := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsPrint(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if plain(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// visibleWriter makes what is written visible, and passes on whole lines: a character may come in
// two pieces.
type visibleWriter struct {
	w    io.Writer
	rest []byte
}

// longestLine bounds what is held back, in bytes.
const longestLine = 1 << 20

func (v *visibleWriter) Write(p []byte) (int, error) {
	v.rest = append(v.rest, p...)
	end := strings.LastIndexByte(string(v.rest), '\n') + 1
	if len(v.rest) > longestLine {
		end = len(v.rest)
	}
	_, err := io.WriteString(v.w, visible(string(v.rest[:end])))
	v.rest = append(v.rest[:0], v.rest[end:]...)
	return len(p), err
}

// Close writes what is left of the last line.
func (v *visibleWriter) Close() error {
	_, err := io.WriteString(v.w, visible(string(v.rest)))
	v.rest = nil
	return err
}
