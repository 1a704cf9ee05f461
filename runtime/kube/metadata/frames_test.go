package metadata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// pieces gives a stream out in the pieces that are asked for.
type pieces struct {
	data  []byte
	sizes []int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := len(p.data)
	if len(p.sizes) > 0 {
		n, p.sizes = p.sizes[0], p.sizes[1:]
	}
	n = copy(b[:min(n, len(b))], p.data)
	p.data = p.data[n:]
	return n, nil
}

func framed(all [][]byte) (data []byte) {
	for _, b := range all {
		data = append(binary.BigEndian.AppendUint32(data, uint32(len(b))), b...)
	}
	return data
}

// Whatever the pieces in which a stream comes, its frames are the same; ready
// never promises what is not there; and the buffer is not much longer than the
// longest frame.
func TestFrames(t *testing.T) {
	size := rapid.OneOf(rapid.IntRange(0, 50), rapid.IntRange(0, 10_000), rapid.IntRange(100_000, 300_000))
	rapid.Check(t, func(t *rapid.T) {
		var want [][]byte
		longest := maxBuffer
		for i := range rapid.IntRange(0, 30).Draw(t, "frames") {
			n := size.Draw(t, "size")
			want, longest = append(want, bytes.Repeat([]byte{byte(i)}, n)), max(longest, n+4)
		}
		data := framed(want)
		cut := rapid.IntRange(0, len(data)).Draw(t, "cut")
		p := &pieces{data[:cut], rapid.SliceOfN(rapid.IntRange(1, 100_000), 0, 50).Draw(t, "pieces")}
		f := newFrames(p)
		read := 0
		for i := 0; ; i++ {
			ready, left := f.ready(), len(p.data)
			b, err := f.next()
			if ready && (err != nil || len(p.data) != left) {
				t.Fatalf("frame %d was reported as ready: %v", i, err)
			}
			if err != nil {
				if whole := err == io.EOF; whole != (read == cut) || !whole && err != io.ErrUnexpectedEOF {
					t.Fatalf("%v after %d of %d bytes", err, read, cut)
				}
				break
			}
			if !bytes.Equal(b, want[i]) {
				t.Fatalf("frame %d: %d bytes of %d, want %d of %d", i, len(b), b[:1], len(want[i]), i)
			}
			read += 4 + len(b)
			if len(f.buf) > 2*longest {
				t.Fatalf("a buffer of %d for frames of %d", len(f.buf), longest)
			}
		}
	})
}

func TestFramesShrink(t *testing.T) {
	f := newFrames(iotest.OneByteReader(bytes.NewReader(framed([][]byte{make([]byte, 1<<20), make([]byte, 10), make([]byte, 10)}))))
	for range 3 {
		if _, err := f.next(); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.buf) > minBuffer {
		t.Errorf("the buffer still has %d bytes", len(f.buf))
	}
}

// A length alone must not take memory.
func TestFrameThatClaimsTooMuch(t *testing.T) {
	f := newFrames(bytes.NewReader([]byte{0xff, 0, 0, 0}))
	if _, err := f.next(); !errors.Is(err, ErrMalformed) {
		t.Errorf("4 GiB: %v", err)
	}
	f = newFrames(bytes.NewReader([]byte{0, 0xff, 0, 0, 1, 2, 3}))
	if _, err := f.next(); err != io.ErrUnexpectedEOF {
		t.Errorf("16 MiB, cut off: %v", err)
	}
	if len(f.buf) > 2*minBuffer {
		t.Errorf("%d bytes for 7", len(f.buf))
	}
}

func TestReaderThatGivesNothing(t *testing.T) {
	f := newFrames(nothing{})
	if _, err := f.next(); err != io.ErrNoProgress {
		t.Errorf("got %v", err)
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }
