//go:build !linux

package main

import (
	"context"
	"errors"
	"io"
)

// run is for Linux alone: this machine is no node of ebb's.
func (examination) run(context.Context, string, string, io.Writer) error {
	return errors.New("doctor checks the node that it runs on, which must be Linux: name a node with --node")
}
