//go:build !linux

package kubelet

import (
	"errors"
	"io/fs"
	"os"
)

// Open fails: reading the files of another process needs Linux.
func (p *Process) Open(name string, _ int) (*os.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
}
