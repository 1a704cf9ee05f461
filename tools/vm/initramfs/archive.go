// Package initramfs writes the archive that a Linux kernel unpacks into its first root
// filesystem: cpio in the "newc" format. It is not compressed, because decompression on
// an emulated CPU is slow. Names are sorted and times are zero, so the same contents
// give the same bytes.
package initramfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Archive is a set of files, by their absolute path in the machine. The zero
// value is empty.
type Archive struct {
	// Root is the directory from which programs are taken; "" is this machine's root.
	Root string

	entries map[string]entry
}

// entry is one file; which field is used depends on the type in mode.
type entry struct {
	mode    uint32
	content []byte // of a file, or a symbolic link's target
	source  string // or the file on this machine with the content
	device  uint64
}

// AddFile adds a file with this content.
func (a *Archive) AddFile(name string, mode fs.FileMode, content []byte) {
	a.add(name, entry{mode: unix.S_IFREG | uint32(mode.Perm()), content: content})
}

// AddCopy adds a file with the content of source at the time of Write.
func (a *Archive) AddCopy(name string, mode fs.FileMode, source string) {
	a.add(name, entry{mode: unix.S_IFREG | uint32(mode.Perm()), source: source})
}

// AddLink adds a symbolic link.
func (a *Archive) AddLink(name, target string) {
	a.add(name, entry{mode: unix.S_IFLNK | 0o777, content: []byte(target)})
}

// AddDir adds a directory. Parents of other entries are added automatically.
func (a *Archive) AddDir(name string) { a.add(name, directory) }

// AddCharDevice adds a character device.
func (a *Archive) AddCharDevice(name string, mode fs.FileMode, major, minor uint32) {
	a.add(name, entry{mode: unix.S_IFCHR | uint32(mode.Perm()), device: unix.Mkdev(major, minor)})
}

var directory = entry{mode: unix.S_IFDIR | 0o755}

// Has reports whether there is an entry of that name.
func (a *Archive) Has(name string) bool { _, ok := a.entries[clean(name)]; return ok }

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// add adds or replaces an entry. If a file replaces a directory, Write returns an
// error, because the kernel would silently drop the entries below it.
func (a *Archive) add(name string, e entry) {
	if a.entries == nil {
		a.entries = make(map[string]entry)
	}
	name = clean(name)
	a.entries[name] = e
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := a.entries[dir]; !ok {
			a.entries[dir] = directory
		}
	}
}

// Write writes the archive.
func (a *Archive) Write(w io.Writer) error {
	out := &writer{w: w}
	for i, name := range slices.Sorted(maps.Keys(a.entries)) {
		if up, ok := a.entries[path.Dir(name)]; ok && up.mode&unix.S_IFMT != unix.S_IFDIR {
			return fmt.Errorf("write initramfs: %s is below a file", name)
		}
		if err := out.entry(uint32(i+1), name, a.entries[name]); err != nil {
			return fmt.Errorf("write initramfs: %s: %w", name, err)
		}
	}
	if err := out.entry(0, trailer, entry{}); err != nil {
		return fmt.Errorf("write initramfs: %w", err)
	}
	return nil
}

const trailer = "TRAILER!!!"

// ErrChanged is the error for a file whose size changed while it was copied.
var ErrChanged = errors.New("file changed while it was copied")

type writer struct {
	w       io.Writer
	written int64
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.written += int64(n)
	return n, err
}

func (w *writer) entry(ino uint32, name string, e entry) error {
	size, content, err := e.open()
	if err != nil {
		return err
	}
	defer content.Close()
	// Inode, mode, uid, gid, links, mtime, size, major and minor of the containing
	// device, major and minor of the device itself, length of the name with its zero,
	// checksum.
	fields := []uint32{
		ino, e.mode, 0, 0, 1, 0, uint32(size), 0, 0,
		unix.Major(e.device), unix.Minor(e.device), uint32(len(name) + 1), 0,
	}
	var header bytes.Buffer
	header.WriteString("070701")
	for _, f := range fields {
		fmt.Fprintf(&header, "%08x", f)
	}
	header.WriteString(name)
	header.WriteByte(0)
	if _, err := header.WriteTo(w); err != nil {
		return err
	}
	if err := w.pad(); err != nil {
		return err
	}
	n, err := io.Copy(w, content)
	if err != nil {
		return err
	}
	if n != size {
		return ErrChanged
	}
	return w.pad()
}

// pad aligns the next output to 4 bytes from the start of the archive.
func (w *writer) pad() error {
	_, err := w.Write(make([]byte, (4-w.written%4)%4))
	return err
}

const maxSize = 1<<32 - 1 // a header has 8 hexadecimal digits

func (e entry) open() (int64, io.ReadCloser, error) {
	if e.source == "" {
		return int64(len(e.content)), io.NopCloser(bytes.NewReader(e.content)), nil
	}
	f, err := os.Open(e.source)
	if err != nil {
		return 0, nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxSize) {
		err = fmt.Errorf("%s is not a file below 4 GiB", e.source)
	}
	if err != nil {
		f.Close()
		return 0, nil, err
	}
	return info.Size(), f, nil
}
