package vm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/tools/process"
)

// Kernels are the kernels of Debian 12 for amd64, named after the part of the package
// name behind "linux-image-". The first two differ most: the older version with ext4
// built in, and the newer one with every filesystem as a module.
var Kernels = []string{"cloud-amd64", "6.12-amd64", "amd64", "6.12-cloud-amd64", "rt-amd64", "6.12-rt-amd64"}

// ArmKernels are some of Debian's kernels for arm64.
var ArmKernels = []string{"cloud-arm64", "6.12-cloud-arm64"}

// wantedModules are the modules that tests and the disk need, unless they are built in.
// Their dependencies are added automatically.
var wantedModules = []string{"loop", "overlay", "ext4", "quota_v2", "xfs", "btrfs", "erofs", "virtio_pci", "virtio_blk"}

// Kernel is an unpacked kernel.
type Kernel struct {
	Name    string // one of Kernels, or of ArmKernels
	Package string // Debian package that Name means now, with its version
	Release string // as in uname
	Dir     string
}

// Image is the bootable file.
func (k Kernel) Image() string { return filepath.Join(k.Dir, "boot", "vmlinuz-"+k.Release) }

// ModuleDir is the path of the modules in any root.
func (k Kernel) ModuleDir() string { return filepath.Join("/usr/lib/modules", k.Release) }

// CacheDir returns the directory for files that are kept between runs, outside any
// clone.
func CacheDir() (string, error) {
	if dir := os.Getenv("EBB_CACHE"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find cache: %w", err)
	}
	return filepath.Join(home, ".cache", "ebb"), nil
}

// Fetch returns Debian's present kernel of that name. It downloads and unpacks the
// kernel unless the cache has this version. It updates apt's lists only if the present
// ones do not lead to the kernel.
func Fetch(ctx context.Context, cache, name string) (Kernel, error) {
	k, err := fetch(ctx, filepath.Join(cache, "kernels"), name)
	if err != nil {
		return Kernel{}, fmt.Errorf("fetch kernel %s (package %s%s, from this machine's apt sources): %w", name, imagePrefix, name, err)
	}
	return k, nil
}

func fetch(ctx context.Context, kernels, name string) (Kernel, error) {
	unlock, err := lock(kernels)
	if err != nil {
		return Kernel{}, err
	}
	defer unlock()
	kind, err := archOf(name)
	if err != nil {
		return Kernel{}, err
	}
	source, err := aptFor(kind.name, filepath.Join(kernels, "apt-"+kind.name))
	if err != nil {
		return Kernel{}, err
	}
	var k Kernel
	err = source.fresh(ctx, func() (err error) {
		k, err = source.present(ctx, kernels, name)
		return err
	})
	return k, err
}

// lock creates the directory if needed and locks it. A second process waits, and then
// finds the work done.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return func() { f.Close() }, nil
}

// present puts the kernel that apt's lists name into the cache, unless the cache has
// it.
func (a apt) present(ctx context.Context, kernels, name string) (Kernel, error) {
	p, err := a.resolve(ctx, name)
	if err != nil {
		return Kernel{}, err
	}
	k := Kernel{Name: name, Package: p.name + " " + p.version, Release: strings.TrimPrefix(p.name, imagePrefix)}
	// The modules that are kept depend on wantedModules, too.
	sum := sha256.Sum256([]byte(strings.Join(wantedModules, " ")))
	k.Dir = filepath.Join(kernels, fmt.Sprintf("%s_%s_%.4x", p.name, p.version, sum))
	if _, err := os.Stat(k.Dir); err == nil {
		return k, nil
	}
	return k, a.unpack(ctx, kernels, p, k)
}

// unpack fills k.Dir. A rename makes the directory appear complete.
func (a apt) unpack(ctx context.Context, kernels string, p debianPackage, k Kernel) error {
	tmp, err := os.MkdirTemp(kernels, "unpack.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	deb, err := a.download(ctx, tmp, p)
	if err != nil {
		return err
	}
	root := filepath.Join(tmp, "root")
	if _, err := run(ctx, "", "dpkg-deb", "-x", deb, root); err != nil {
		return err
	}
	if err := keepModules(ctx, root, k.Release); err != nil {
		return err
	}
	if err := os.Rename(root, k.Dir); err != nil {
		return err
	}
	return nil
}

// keepModules deletes all modules except the wanted ones and their dependencies. It
// decompresses these and writes their load order into orderFile.
func keepModules(ctx context.Context, root, release string) error {
	// depmod expects /lib; the rest of this package uses /usr/lib, as on a merged root.
	// Packages for arm64 have device trees there, which an emulated machine does not
	// need: qemu provides its own.
	if err := os.RemoveAll(filepath.Join(root, "usr", "lib")); err != nil {
		return err
	}
	if err := os.Symlink("../lib", filepath.Join(root, "usr", "lib")); err != nil {
		return err
	}
	if _, err := run(ctx, "", "depmod", "-b", root, release); err != nil {
		return err
	}
	keep, err := loadOrder(ctx, root, release)
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "lib/modules", release)
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.Contains(entry.Name(), ".ko") || slices.Contains(keep, path) {
			return err
		}
		return os.Remove(path)
	})
	if err != nil {
		return err
	}
	for _, module := range keep {
		if strings.HasSuffix(module, ".xz") {
			if _, err := run(ctx, "", "xz", "-d", module); err != nil {
				return err
			}
		}
	}
	// Once more, for programs that load modules by name in the machine.
	if _, err := run(ctx, "", "depmod", "-b", root, release); err != nil {
		return err
	}
	names := strings.ReplaceAll(strings.Join(keep, "\n"), dir+"/", "")
	return os.WriteFile(filepath.Join(dir, orderFile), []byte(strings.ReplaceAll(names, ".xz", "")), 0o644)
}

// orderFile lists a kernel's modules in load order.
const orderFile = "modules.ebb"

// loadOrder asks modprobe which modules it would load for the wanted ones. modprobe
// knows hard and soft dependencies, such as a checksum that is looked up by name only
// when a filesystem is mounted.
func loadOrder(ctx context.Context, root, release string) ([]string, error) {
	var order []string
	for _, name := range wantedModules {
		out, err := run(ctx, "", "modprobe", "-C", "/dev/null", "-d", root, "-S", release, "--show-depends", name)
		if err != nil {
			return nil, err
		}
		files, err := parseDepends(out)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if !slices.Contains(order, file) {
				order = append(order, file)
			}
		}
	}
	return order, nil
}

// errDepends is the error for unexpected output of modprobe.
var errDepends = errors.New("unknown line from modprobe")

// parseDepends reads lines "insmod FILE [options]" and "builtin NAME".
func parseDepends(out string) ([]string, error) {
	var files []string
	for line := range strings.Lines(out) {
		switch words := strings.Fields(line); {
		case len(words) >= 2 && words[0] == "insmod":
			files = append(files, words[1])
		case len(words) == 2 && words[0] == "builtin":
		default:
			return nil, fmt.Errorf("%w: %q", errDepends, line)
		}
	}
	return files, nil
}

// Modules returns the paths of k's modules in the machine, in load order.
func (k Kernel) Modules() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(k.Dir, k.ModuleDir(), orderFile))
	if err != nil {
		return nil, fmt.Errorf("list modules: %w", err)
	}
	var files []string
	for _, name := range strings.Fields(string(text)) {
		files = append(files, filepath.Join(k.ModuleDir(), name))
	}
	return files, nil
}

// run returns a command's stdout; an error includes its stderr.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	return process.Output(cmd)
}
