package sysdump

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrExists: the file that is to be made is there.
var ErrExists = errors.New("it exists already, and is not overwritten")

// WriteFile has a function write a file that appears when it is whole, for its owner
// alone, and never in the place of another.
func WriteFile(name string, write func(io.Writer) error) (err error) {
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s: %w", name, ErrExists)
	}
	temporary, err := os.CreateTemp(filepath.Dir(name), ".ebb-sysdump-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(temporary.Name())) }()
	err = write(temporary)
	if err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	// A link is made only where nothing is; a rename would replace what came meanwhile.
	if err = os.Link(temporary.Name(), name); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", name, ErrExists)
	}
	return err
}
