package kubelet

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a path as the kubelet would: below the kubelet's root, in its mounts. Links cannot
// lead out of the root. For directories, O_PATH in flags is enough.
func (p *Process) Open(name string, flags int) (*os.File, error) {
	root, err := unix.Open(p.file("root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: p.file("root"), Err: err}
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, p.absolute(name), &unix.OpenHow{
		Flags: uint64(flags) | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
