package gc

import "strings"

// mostWords bounds how many strings Words remembers.
const mostWords = 10_000

// Words gives equal strings one copy in memory, for names that many objects share. The zero value is
// ready. When it is full it starts over, so names that are gone do not stay: later equal strings only
// get another copy.
type Words map[string]string

// Of returns the shared copy of s. It does not keep what s is a part of.
func (w *Words) Of(s string) string {
	shared, known := (*w)[s]
	switch {
	case known:
		return shared
	case *w == nil:
		*w = make(Words)
	case len(*w) >= mostWords:
		clear(*w)
	}
	s = strings.Clone(s)
	(*w)[s] = s
	return s
}
