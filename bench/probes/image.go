package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bpf"
)

// Sizes of the image. It has enough files to be typical. It has few enough to stay in the caches of
// inodes and directories, where opening is fastest and a program's share of the time is largest.
const (
	imageLayers   = 3
	filesPerLayer = 1500
	filesPerDir   = 100
)

// image is unpacked as a snapshotter unpacks it, and mounted as a container's
// root.
type image struct {
	root  string
	top   bpf.Key  // its last layer
	files []string // as the container names them
}

// unpackImage makes the layers and mounts them.
func unpackImage(dir string) (i image, err error) {
	var lower []string
	for n := range imageLayers {
		layer := filepath.Join(dir, fmt.Sprint("layer", n))
		if err := i.fill(layer, n); err != nil {
			return i, err
		}
		lower = append(lower, layer)
	}
	if i.top, err = keyOf(lower[0]); err != nil {
		return i, err
	}
	bin := filepath.Join(lower[imageLayers-1], "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return i, err
	}
	for name, from := range map[string]string{"busybox": "/bin/busybox", "worker": "/proc/self/exe"} {
		if err := benchmark.Copy(filepath.Join(bin, name), from, 0o755); err != nil {
			return i, err
		}
	}
	for _, d := range []string{"upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return i, err
		}
	}
	root := filepath.Join(dir, "root")
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", strings.Join(lower, ":"), dir, dir)
	if err := unix.Mount("overlay", root, "overlay", 0, options); err != nil {
		return i, fmt.Errorf("mount overlay: %w", err)
	}
	i.root = root
	return i, nil
}

func (i *image) fill(layer string, n int) error {
	for f := range filesPerLayer {
		dir := fmt.Sprintf("usr/share/l%d/d%d", n, f/filesPerDir)
		if f%filesPerDir == 0 {
			if err := os.MkdirAll(filepath.Join(layer, dir), 0o755); err != nil {
				return err
			}
		}
		name := filepath.Join(dir, fmt.Sprint("file", f))
		if err := os.WriteFile(filepath.Join(layer, name), make([]byte, 2000+f), 0o644); err != nil {
			return err
		}
		i.files = append(i.files, "/"+name)
	}
	return nil
}

func keyOf(dir string) (bpf.Key, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return bpf.Key{}, err
	}
	return bpf.Key{Dev: uint64(unix.Major(st.Dev))<<20 | uint64(unix.Minor(st.Dev)), Ino: st.Ino}, nil
}

func (i image) close() error {
	if i.root == "" {
		return nil
	}
	return unix.Unmount(i.root, 0)
}
