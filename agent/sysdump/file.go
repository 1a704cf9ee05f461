package sysdump

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrExists is the error of [WriteFile] if the file exists already.
var ErrExists = errors.New("it exists already, and is not overwritten")

// WriteFile creates a file with what write writes. The file appears only when it is complete. Only
// its owner can read it, and it never replaces another file.
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
	// A link fails if the name exists. A rename would replace a file that was created in the
	// meantime.
	if err = os.Link(temporary.Name(), name); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", name, ErrExists)
	}
	return err
}
