//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
)

// run fails, because ebb's nodes run Linux, and this machine does not.
func (examination) run(context.Context, string, string, io.Writer) error {
	return errors.New("doctor checks the node that it runs on, which must be Linux: name a node with --node")
}
