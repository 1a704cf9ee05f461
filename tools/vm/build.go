package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ebb-agent/ebb/tools/vm/initramfs"
	"github.com/ebb-agent/ebb/tools/vm/report"
)

// programs are copied from the userland, which is mostly this machine's. So are the shell and
// the file tools: busybox has most of them, but not every option that tests use.
var programs = []string{
	"containerd", "containerd-shim-runc-v2", "runc",
	"mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "btrfs", "xfs_io",
	"mount", "umount", "losetup", "fallocate", "setpriv", "modprobe", "rmmod",
	"sh", "cat", "cp", "dd", "df", "find", "ln", "ls", "mkdir", "mv", "rm", "rmdir",
	"du", "seq", "sleep", "sync", "touch", "true", "truncate",
}

// etc holds the files of /etc that programs in the machine read.
var etc = map[string]string{
	"passwd":      "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
	"group":       "root:x:0:\nnogroup:x:65534:\n",
	"hosts":       "127.0.0.1 localhost ebb-vm\n",
	"hostname":    "ebb-vm\n",
	"resolv.conf": "", // CRI copies it into every pod
}

// Builder holds everything that is the same for all kernels of one architecture.
type Builder struct {
	dir      string
	root     string // of the userland
	suites   []suite
	compiled map[string]string
}

// NewBuilder compiles the programs of a machine of that architecture, amd64 or arm64. The
// caller must Close it.
func NewBuilder(ctx context.Context, cache, kind string, s Selection) (_ *Builder, err error) {
	b := &Builder{}
	if b.suites, err = s.suites(); err != nil {
		return nil, err
	}
	if len(b.suites) > 0 { // loading the kernel programs needs no userland
		if b.root, err = userland(ctx, cache, kind); err != nil {
			return nil, fmt.Errorf("build tests: %w", err)
		}
	}
	if b.dir, err = os.MkdirTemp("", "ebb-vm-"); err != nil {
		return nil, fmt.Errorf("build tests: %w", err)
	}
	if b.compiled, err = compile(ctx, b.dir, kind, b.suites); err != nil {
		b.Close()
		return nil, fmt.Errorf("build tests: %w", err)
	}
	return b, nil
}

// Close removes everything that was built.
func (b *Builder) Close() error { return os.RemoveAll(b.dir) }

// Build writes an initramfs for that kernel, and returns its file and the machine's order.
func (b *Builder) Build(k Kernel) (file string, o report.Order, err error) {
	if o.Modules, err = k.Modules(); err != nil {
		return "", o, fmt.Errorf("build initramfs: %w", err)
	}
	for _, s := range b.suites {
		o.Suites = append(o.Suites, s.order())
	}
	a, err := b.archive(k, o)
	if err != nil {
		return "", o, fmt.Errorf("build initramfs: %w", err)
	}
	f, err := os.Create(filepath.Join(b.dir, k.Release+".cpio"))
	if err != nil {
		return "", o, fmt.Errorf("build initramfs: %w", err)
	}
	if err := a.Write(f); err != nil {
		f.Close()
		return "", o, err
	}
	return f.Name(), o, f.Close()
}

func (b *Builder) archive(k Kernel, o report.Order) (*initramfs.Archive, error) {
	a := &initramfs.Archive{Root: b.root}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		a.AddLink(dir, "usr/"+dir)
		a.AddDir("usr/" + dir)
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/root", "/var/tmp"} {
		a.AddDir(dir)
	}
	// The kernel opens it for the first process, before any filesystem is mounted.
	a.AddCharDevice("/dev/console", 0o600, 5, 1)
	for name, content := range etc {
		a.AddFile("/etc/"+name, 0o644, []byte(content))
	}
	if len(b.suites) > 0 {
		if err := b.addUserland(a); err != nil {
			return nil, err
		}
	}
	for target, file := range b.compiled {
		a.AddCopy(target, 0o755, file)
	}
	order, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	a.AddFile(report.OrderFile, 0o644, order)
	return a, addModules(a, k)
}

// addUserland adds the programs that tests run.
func (b *Builder) addUserland(a *initramfs.Archive) error {
	// Without it mkfs.ext4 uses outdated defaults.
	a.AddCopy("/etc/mke2fs.conf", 0o644, filepath.Join(b.root, "/etc/mke2fs.conf"))
	for _, name := range programs {
		if err := a.AddProgram(name); err != nil {
			return err
		}
	}
	// Tests copy busybox into layers from this path.
	a.AddCopy("/usr/bin/busybox", 0o755, filepath.Join(b.root, "/bin/busybox"))
	return nil
}

// addModules adds the modules that keepModules has left, and the files by which modprobe finds
// them.
func addModules(a *initramfs.Archive, k Kernel) error {
	dir := filepath.Join(k.Dir, k.ModuleDir())
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			a.AddCopy(filepath.Join(k.ModuleDir(), name), 0o644, path)
		}
		return err
	})
}
