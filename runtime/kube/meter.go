package kube

import (
	"io"
	"math"
)

// unlimited is for a watch, which as a whole may be as long as it likes.
const unlimited = math.MaxInt64

// meter bounds what a decoder reads: all in all, and for one object. A decoder
// reads ahead, so that an object may get less than its limit by what the one
// before it took too much; the limits have room for that.
type meter struct {
	r      io.Reader
	total  int64 // still to come
	object int64 // of this object still to come
}

func newMeter(r io.Reader, total int64) *meter {
	return &meter{r: r, total: total, object: maxObject}
}

// next begins another object.
func (m *meter) next() { m.object = maxObject }

func (m *meter) Read(p []byte) (int, error) {
	left := min(m.total, m.object)
	if left <= 0 {
		return 0, nonsense("longer than is plausible")
	}
	if int64(len(p)) > left {
		p = p[:left]
	}
	n, err := m.r.Read(p)
	m.total -= int64(n)
	m.object -= int64(n)
	return n, err
}
