package metadata

import (
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/policy/gc"
)

// arena keeps the strings and slices of many objects in few allocations. What it
// has given out is never written again, so that whoever has it may keep it; but
// one string keeps the whole chunk it lies in.
type arena struct {
	text  strings.Builder
	chunk int
	refs  sliceArena[gc.Reference]
	names sliceArena[string]
}

// Chunks begin small, because most watches say one thing in a minute, and double
// while a list goes on.
const (
	minChunk = 512
	maxChunk = 32 << 10
	maxSlice = 128
)

func (s *arena) keep(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s.text.Cap()-s.text.Len() < len(b) {
		s.chunk = min(max(2*s.chunk, minChunk), maxChunk)
		s.text = strings.Builder{}
		s.text.Grow(max(s.chunk, len(b)))
	}
	at := s.text.Len()
	s.text.Write(b)
	return s.text.String()[at:]
}

// reset lets go of the chunks: nothing more comes for a while.
func (s *arena) reset() { *s = arena{} }

// sliceArena is one array for the slices of many objects.
type sliceArena[T any] struct {
	all  []T
	size int
}

func (s *sliceArena[T]) keep(v []T) []T {
	if len(v) == 0 {
		return nil
	}
	if len(v) > cap(s.all)-len(s.all) {
		if len(v) > maxSlice/2 {
			return slices.Clone(v)
		}
		s.size = min(max(2*s.size, len(v)), maxSlice)
		s.all = make([]T, 0, s.size)
	}
	at := len(s.all)
	s.all = append(s.all, v...)
	return s.all[at:len(s.all):len(s.all)] // nobody appends into the next one's
}
