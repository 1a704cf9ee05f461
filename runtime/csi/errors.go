package csi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors of this package, for errors.Is.
var (
	// ErrUnavailable: the driver cannot serve now, or does not answer. It implies nothing about the
	// volume.
	ErrUnavailable = errors.New("the driver cannot serve")
	// ErrOther: another driver listens on the socket, or one that deletes no volumes.
	ErrOther = errors.New("not the driver that was expected")
	// ErrNotFound: the driver does not know the volume. It may not be the right backend.
	ErrNotFound = errors.New("the driver does not know the volume")
	// ErrRefused: the driver will not delete the volume in its present state.
	ErrRefused = errors.New("the driver refuses")
)

// sentinelOf returns the meaning of a code for a deletion; nil for codes of failures that may pass.
func sentinelOf(c codes.Code) error {
	switch c {
	case codes.NotFound:
		return ErrNotFound
	case codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied, codes.Unauthenticated, codes.OutOfRange, codes.Unimplemented:
		return ErrRefused
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		return ErrUnavailable
	}
	return nil
}

// mostText bounds, in bytes, how much of a response's message an error repeats.
const mostText = 300

// translate adds the operation to an error. Drivers may repeat their input, so secrets are cut out
// of the message.
func translate(operation string, err error, secrets map[string]string) error {
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	text := s.Message()
	longestFirst := func(a, b string) int { return len(b) - len(a) } // one secret can be a part of another one
	for _, v := range slices.SortedFunc(maps.Values(secrets), longestFirst) {
		if v != "" {
			text = strings.ReplaceAll(text, v, "…")
		}
	}
	if len(text) > mostText {
		text = strings.ToValidUTF8(text[:mostText], "") + "…"
	}
	if sentinel := sentinelOf(s.Code()); sentinel != nil {
		return fmt.Errorf("%s: %w: %s: %q", operation, sentinel, s.Code(), text)
	}
	return fmt.Errorf("%s: %s: %q", operation, s.Code(), text)
}
