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

// userlandPackages have the programs of a machine, and /etc/mke2fs.conf.
var userlandPackages = []string{
	"busybox-static", "containerd", "runc", "e2fsprogs", "xfsprogs", "btrfs-progs", "mount", "util-linux", "kmod",
	"dash", "coreutils", "findutils",
}

// userland is the directory below which a machine's programs are. Those for
// this kind of machine are this machine's own; for others Debian's packages, and
// what these depend on, are unpacked into the cache. None is installed, and
// none of their scripts is run.
func userland(ctx context.Context, cache, kind string) (string, error) {
	if kind == runtime.GOARCH {
		return "/", nil
	}
	dir := filepath.Join(cache, "kernels") // where apt's lists for other kinds are, too
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

// unpackUserland fills a directory that is named by what is in it, and that
// appears by one rename and so as a whole.
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
	// A cache of its own, so that only what belongs to it is unpacked.
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
