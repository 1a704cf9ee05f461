package watermark

import (
	"errors"
	"testing"
)

// Where the kernel refuses a watermark the filesystem is polled, until it takes one. The refusal is
// reported for a filesystem as long as it is there.
func TestWatermarkRefused(t *testing.T) {
	s := newShared(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.at(imagesPath)
	s.refused = errors.New("no room")
	s.Looked(t.Context())
	if f.Kernel || s.Next().IsZero() || !s.o.Conditions.Holds(f.kernelTopic()) {
		t.Errorf("the kernel watches: %v; next is %v", f.Kernel, s.Next())
	}
	s.refused = nil
	s.Looked(t.Context())
	if !f.Kernel || !s.Next().IsZero() || s.o.Conditions.Holds(f.kernelTopic()) {
		t.Errorf("the kernel takes watermarks again; it watches: %v; next is %v", f.Kernel, s.Next())
	}
	s.refused = errors.New("no room")
	s.Looked(t.Context())
	delete(s.mounts, imagesPath)
	s.Survey()
	if s.o.Conditions.Holds(f.kernelTopic()) {
		t.Error("what the kernel refused holds of a former filesystem")
	}
}
