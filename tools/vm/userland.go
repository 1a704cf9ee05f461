package vm

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// userlandPackages contain the programs of a machine, and /etc/mke2fs.conf.
var userlandPackages = []string{
	"busybox-static", "containerd", "runc", "e2fsprogs", "xfsprogs", "btrfs-progs", "mount", "util-linux", "kmod",
	"dash", "coreutils", "findutils",
}

// userland returns the directory that contains a machine's programs. For this machine's
// architecture it is "/". For others, Debian's packages and their dependencies are
// unpacked into the cache. They are not installed, and their scripts do not run.
func userland(ctx context.Context, cache, kind string) (string, error) {
	if kind == runtime.GOARCH {
		return "/", nil
	}
	dir := filepath.Join(cache, "kernels") // also holds apt's lists for other architectures
	unlock, err := lock(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	source, err := aptFor(kind, filepath.Join(dir, "apt-"+kind))
	if err != nil {
		return "", err
	}
	var root string
	err = source.fresh(ctx, func() (err error) {
		root, err = source.unpackUserland(ctx, dir, kind)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("fetch programs for %s: %w", kind, err)
	}
	return root, nil
}

// unpackUserland fills a directory whose name is a hash of its packages. A rename makes
// the directory appear complete.
func (a apt) unpackUserland(ctx context.Context, dir, kind string) (string, error) {
	install := append([]string{"install", "-y", "--no-install-recommends"}, userlandPackages...)
	plan, err := a.run(ctx, "", "apt-get", append([]string{"-s"}, install...)...)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for line := range strings.Lines(plan) {
		if strings.HasPrefix(line, "Inst ") {
			fmt.Fprint(sum, line)
		}
	}
	root := filepath.Join(dir, fmt.Sprintf("userland-%s-%.6x", kind, sum.Sum(nil)))
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}
	tmp, err := os.MkdirTemp(dir, "unpack.")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	// A separate cache of archives, so that only these packages are unpacked.
	archives := filepath.Join(tmp, "debs")
	if err := os.MkdirAll(filepath.Join(archives, "partial"), 0o755); err != nil {
		return "", err
	}
	if _, err := a.run(ctx, "", "apt-get", append([]string{"-o", "Dir::Cache::archives=" + archives, "--download-only"}, install...)...); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil || len(files) < len(userlandPackages) {
		return "", fmt.Errorf("download: %d packages came", len(files))
	}
	for _, deb := range files {
		if _, err := run(ctx, "", "dpkg-deb", "-x", deb, filepath.Join(tmp, "root")); err != nil {
			return "", err
		}
	}
	return root, os.Rename(filepath.Join(tmp, "root"), root)
}
