package bpf

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// TestClassify: a verifier that refuses returns "permission denied" as well as a
// kernel that lacks nothing but a capability.
func TestClassify(t *testing.T) {
	refusal := &ebpf.VerifierError{Cause: unix.EACCES, Log: []string{"R1 invalid mem access"}}
	for name, tt := range map[string]struct {
		err, is, isNot error
		text           string
	}{
		"verifier": {refusal, ErrUnsupported, ErrNotPermitted, "R1 invalid mem access"},
		"no log":   {&ebpf.VerifierError{Cause: unix.EPERM}, ErrNotPermitted, ErrUnsupported, ""},
		"eperm":    {unix.EPERM, ErrNotPermitted, ErrUnsupported, ""},
		"lacking":  {ebpf.ErrNotSupported, ErrUnsupported, ErrNotPermitted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := classify(tt.err)
			if !errors.Is(err, tt.is) || errors.Is(err, tt.isNot) || !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("classified as %v", err)
			}
		})
	}
}
