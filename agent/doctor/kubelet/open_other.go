//go:build !linux

package kubelet

import (
	"errors"
	"io/fs"
	"os"
)

// Open fails: only a kubelet on Linux is looked at from beside it.
func (p *Process) Open(name string, _ int) (*os.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
}
