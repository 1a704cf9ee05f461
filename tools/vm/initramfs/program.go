package initramfs

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// libraryDirs is where Debian's dynamic linker looks for amd64 without a cache,
// in this order.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// ErrNoLibrary is returned for a program whose libraries are not on this
// machine.
var ErrNoLibrary = errors.New("shared library not found")

// AddProgram adds a program of this machine's PATH under the path it has here,
// with the dynamic linker and the shared libraries it names.
func (a *Archive) AddProgram(name string) error {
	file, err := exec.LookPath(name)
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return fmt.Errorf("add program: %w", err)
	}
	a.AddCopy(merged(file), 0o755, file)
	if err := a.addLibraries(file); err != nil {
		return fmt.Errorf("add program %s: %w", name, err)
	}
	return nil
}

// merged is a path with /usr before what Debian 12 links there: the archive has
// those links, and an entry must not go through one.
func merged(path string) string {
	for _, dir := range []string{"/bin/", "/sbin/", "/lib/", "/lib64/"} {
		if strings.HasPrefix(path, dir) {
			return "/usr" + path
		}
	}
	return path
}

// addLibraries adds what an ELF file needs, and what that needs in turn.
func (a *Archive) addLibraries(file string) error {
	needed, err := libraries(file)
	if err != nil {
		return err
	}
	for _, name := range needed {
		source, err := findLibrary(name)
		if err != nil {
			return err
		}
		if a.Has(merged(source)) {
			continue
		}
		a.AddCopy(merged(source), 0o755, source)
		if err := a.addLibraries(source); err != nil {
			return err
		}
	}
	return nil
}

// libraries returns the dynamic linker (by its path) and the libraries (by
// their names) of an ELF file; none for a static one.
func libraries(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, fmt.Errorf("read libraries of %s: %w", file, err)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		linker, err := io.ReadAll(p.Open())
		if err != nil {
			return nil, fmt.Errorf("read dynamic linker of %s: %w", file, err)
		}
		needed = append(needed, strings.TrimRight(string(linker), "\x00"))
	}
	return needed, nil
}

func findLibrary(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	for _, dir := range libraryDirs {
		file := filepath.Join(dir, name)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%w: %s", ErrNoLibrary, name)
}
