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

// libraryDirs are the directories that Debian's dynamic linker searches without a
// cache, in this order. Those of other architectures do not exist.
var libraryDirs = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/lib64", "/usr/lib64", "/lib", "/usr/lib",
}

// programDirs are the directories of programs in another root.
var programDirs = []string{"/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// ErrNoLibrary is the error for a program whose libraries are missing.
var ErrNoLibrary = errors.New("shared library not found")

// AddProgram adds a program from this machine's PATH, or from Root if set, at its own
// path. It also adds the dynamic linker and the shared libraries.
func (a *Archive) AddProgram(name string) error {
	file, err := a.findProgram(name)
	if err != nil {
		return fmt.Errorf("add program: %w", err)
	}
	a.AddCopy(merged(file), 0o755, a.inRoot(file))
	if err := a.addLibraries(file); err != nil {
		return fmt.Errorf("add program %s: %w", name, err)
	}
	return nil
}

func (a *Archive) findProgram(name string) (string, error) {
	if a.Root == "" || a.Root == "/" {
		file, err := exec.LookPath(name)
		if err != nil {
			return "", err
		}
		return filepath.Abs(file)
	}
	for _, dir := range programDirs {
		file := filepath.Join(dir, name)
		if _, err := os.Stat(a.inRoot(file)); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s in %s: %w", name, a.Root, exec.ErrNotFound)
}

// maxLinks bounds the symbolic links to one file, as the kernel does.
const maxLinks = 40

// inRoot returns the path on this machine of a file in Root. Absolute symbolic links
// are resolved within Root.
func (a *Archive) inRoot(file string) string {
	if a.Root == "" || a.Root == "/" {
		return file
	}
	for range maxLinks {
		target, err := os.Readlink(filepath.Join(a.Root, file))
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(file), target)
		}
		file = target
	}
	return filepath.Join(a.Root, filepath.Join("/", file))
}

// merged returns a path below /usr for directories that Debian 12 links there. The
// archive has those links, and an entry's path must not contain a link.
func merged(path string) string {
	for _, dir := range []string{"/bin/", "/sbin/", "/lib/", "/lib64/"} {
		if strings.HasPrefix(path, dir) {
			return "/usr" + path
		}
	}
	return path
}

// addLibraries adds the libraries of an ELF file, recursively.
func (a *Archive) addLibraries(file string) error {
	needed, err := libraries(a.inRoot(file))
	if err != nil {
		return err
	}
	for _, name := range needed {
		source, err := a.findLibrary(name)
		if err != nil {
			return err
		}
		if a.Has(merged(source)) {
			continue
		}
		a.AddCopy(merged(source), 0o755, a.inRoot(source))
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

func (a *Archive) findLibrary(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	for _, dir := range libraryDirs {
		file := filepath.Join(dir, name)
		if _, err := os.Stat(a.inRoot(file)); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%w: %s", ErrNoLibrary, name)
}
