package cri

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// ErrUnimplemented says that whoever answers does not serve the CRI v1.
var ErrUnimplemented = errors.New("no CRI v1 service")

var errBadID = errors.New("not a full image ID")

// translate gives err the name of the operation, and the sentinel that its
// gRPC code stands for.
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
	switch s.Code() {
	case codes.NotFound:
		return inventory.ErrNotFound
	case codes.Unavailable:
		return inventory.ErrUnavailable
	case codes.Unimplemented:
		return ErrUnimplemented
	}
	return nil
}

func isNotFound(err error) bool { return errors.Is(err, inventory.ErrNotFound) }
