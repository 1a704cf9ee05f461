package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// ErrUnimplemented is returned (wrapped) if the server does not implement the CRI v1, or this call
// of it.
var ErrUnimplemented = errors.New("no CRI v1 service")

var errBadID = errors.New("not a full image ID")

// translate adds the operation to err, and the sentinel for its gRPC code, if there is one.
func translate(operation string, err error) error {
	if err == nil {
		return nil
	}
	sentinel := sentinelOf(err)
	if sentinel == nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return fmt.Errorf("%s: %w: %w", operation, sentinel, err)
}

func sentinelOf(err error) error {
	s := status.Convert(err)
	// A full disk has no code of its own: it arrives as Unknown, with the text
	// of the system call's error.
	if strings.Contains(s.Message(), "no space left on device") {
		return inventory.ErrNoSpace
	}
	// Nor has it in containerd 1.7 that the CRI plugin is still starting.
	if s.Code() == codes.Unknown && strings.Contains(s.Message(), "server is not initialized yet") {
		return inventory.ErrUnavailable
	}
	switch s.Code() {
	case codes.NotFound:
		return inventory.ErrNotFound
	case codes.Unavailable:
		return inventory.ErrUnavailable
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	case codes.Unimplemented:
		return ErrUnimplemented
	}
	return nil
}

func isNotFound(err error) bool { return errors.Is(err, inventory.ErrNotFound) }
