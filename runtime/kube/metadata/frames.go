package metadata

import (
	"encoding/binary"
	"io"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// frames splits a stream into its parts: events with their length before them, or the parts of a
// list. The buffer grows with the bytes that arrived, not with a claimed length, and shrinks
// again, because every type has one.
type frames struct {
	r      io.Reader
	buf    []byte
	begin  int
	end    int
	passed int64 // bytes read in all
	full   bool  // the last read filled the buffer
	small  int   // reads in a row that a small buffer would have held
}

const (
	minBuffer = 4 << 10
	maxBuffer = 64 << 10 // except for a longer object
)

func newFrames(r io.Reader) *frames { return &frames{r: r} }

func (f *frames) have() int { return f.end - f.begin }

// peek returns the next n bytes, which are valid until the next call. io.EOF
// means that the stream ended before the first, io.ErrUnexpectedEOF that it was
// cut off.
func (f *frames) peek(n int) ([]byte, error) {
	for f.have() < n {
		if err := f.read(); err != nil {
			if err == io.EOF && f.have() > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return f.buf[f.begin : f.begin+n], nil
}

func (f *frames) skip(n int) {
	f.begin += n
	f.passed += int64(n)
}

// read makes room in the buffer, and reads until something arrives.
func (f *frames) read() error {
	f.makeRoom()
	for range 100 {
		n, err := f.r.Read(f.buf[f.end:])
		f.end += n
		f.full = f.end == len(f.buf)
		if n >= minBuffer {
			f.small = 0
		} else {
			f.small++
		}
		if n > 0 {
			return nil // the next Read returns the error again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

func (f *frames) makeRoom() {
	size := len(f.buf)
	switch have := f.have(); {
	case size == 0, have == 0 && (size > maxBuffer || f.small > 4):
		size = minBuffer
	case f.full && size < maxBuffer, have == size: // the whole buffer is a part of one frame
		size *= 2
	}
	to := f.buf
	if size != len(f.buf) {
		to = make([]byte, size)
	} else if f.begin == 0 {
		return // do not move the bytes: a long frame may arrive in many pieces
	}
	f.end = copy(to, f.buf[f.begin:f.end])
	f.buf, f.begin = to, 0
}

// next returns the next frame, which is valid until the next call.
func (f *frames) next() ([]byte, error) {
	head, err := f.peek(4)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head)
	if n > maxObject {
		return nil, fault.Nonsense("a frame of %d MiB", n>>20)
	}
	f.skip(4)
	b, err := f.peek(int(n))
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	f.skip(int(n))
	return b, nil
}

// ready reports whether a whole frame is buffered. Then next does not wait.
func (f *frames) ready() bool {
	if f.have() < 4 {
		return false
	}
	n := binary.BigEndian.Uint32(f.buf[f.begin:])
	return uint64(f.have()) >= 4+uint64(n)
}
