package kubelet

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// SameMounts reports whether the kubelet sees the same files as this process.
func (p *Process) SameMounts() bool {
	theirs, err := os.Readlink(p.file("ns/mnt"))
	ours, ourErr := os.Readlink(p.file("../self/ns/mnt"))
	if err != nil || ourErr != nil || theirs != ours {
		return false
	}
	root, err := p.proc.RootDir()
	return err == nil && root == "/"
}

// MountInfo returns the path of the file with the mounts that the kubelet sees.
func (p *Process) MountInfo() string { return p.file("mountinfo") }

func (p *Process) absolute(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	cwd, _ := p.proc.Cwd() // if it is unknown, the root
	return filepath.Join("/", cwd, name)
}

// readOnly has O_NONBLOCK so that opening a pipe does not block. For a regular file O_NONBLOCK
// changes nothing.
const readOnly = os.O_RDONLY | unix.O_NONBLOCK

// readConfiguration reads and closes a file. Its arguments are the results of opening it.
func readConfiguration(f *os.File, err error) (data []byte, changed time.Time, _ error) {
	if err != nil {
		return nil, changed, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: not a regular file", f.Name())
	}
	if err != nil {
		return nil, changed, err
	}
	data, err = io.ReadAll(io.LimitReader(f, maxFileBytes+1)) // parseFile refuses more
	return data, info.ModTime(), err
}

const (
	// maxListed bounds how many files are looked at below --config-dir, and
	// maxDepth how deep.
	maxListed = 1000
	maxDepth  = 16
)

// tree is the filesystem that the kubelet sees, for fs.WalkDir.
type tree struct{ *Process }

func (t tree) Open(name string) (fs.File, error) { return t.Process.Open(name, readOnly) }

// dropIns lists the files of --config-dir in the kubelet's order: lexical, with directories in
// their place among files.
func (p *Process) dropIns(dir string) (files []string, err error) {
	dir = path.Clean(p.absolute(dir))
	listed := 0
	err = fs.WalkDir(tree{p}, dir, func(name string, d fs.DirEntry, err error) error {
		listed++
		switch {
		case err != nil:
			return err
		case listed > maxListed:
			return fmt.Errorf("more than %d files", maxListed)
		case strings.Count(strings.TrimPrefix(name, dir), "/") > maxDepth:
			return fmt.Errorf("deeper than %d directories", maxDepth)
		case !d.IsDir() && path.Ext(name) == ".conf":
			files = append(files, name)
		}
		return nil
	})
	return files, err
}

func clean(name string) string { return fault.CleanUpTo(name, 200) }
