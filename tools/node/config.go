package node

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Flavor is the version of containerd that a node runs.
type Flavor string

// The flavors.
const (
	Debian Flavor = "debian" // the containerd in PATH: 1.6 on Debian 12
	V2     Flavor = "v2"     // built by tools/containerd
)

// Config describes a node. The zero value of each field has a meaning.
type Config struct {
	// Name identifies a node in its base directory: letters, digits, ".", "_" and "-",
	// at most 32. Default "node".
	Name string

	// FS is the kind of the filesystem: "ext4" (default), "xfs" or "btrfs".
	FS string

	// ProjectQuotas enables and enforces project quotas (ext4, xfs), if the kernel
	// supports them. No limit is set.
	ProjectQuotas bool

	// SizeBytes is the size of the filesystem; the file behind it is sparse.
	// Default 1 GiB. At least 64 MiB for ext4, 300 MiB for xfs, 128 MiB for
	// btrfs.
	SizeBytes int64

	// Containerd is the flavor to run. Default Debian.
	Containerd Flavor

	// Snapshotter unpacks images and makes the roots of containers: "overlayfs"
	// (default), "native", which copies, or "erofs" (V2, and mkfs.erofs).
	Snapshotter string

	// UpperdirLabel sets overlayfs' option upperdir_label: snapshots have a label with
	// their directory.
	UpperdirLabel bool

	// Proxy is the socket of a proxy snapshotter, which containerd knows as "proxy"; "" for none. ProxyRoot
	// is the root directory that containerd exports for it (V2).
	Proxy, ProxyRoot string

	// Sandbox is the name of the sandbox image in containerd's configuration. Default
	// SandboxImage, the name of the imported one.
	Sandbox string

	// Base is the directory that holds nodes. Default $EBB_NODE_DIR, or
	// /var/tmp/ebb-node.
	Base string

	// Log receives a line for each step; nil discards it.
	Log io.Writer
}

const (
	defaultBase = "/var/tmp/ebb-node"
	mib         = 1 << 20
	// sun_path holds 108 bytes with the terminating zero; containerd adds
	// ".ttrpc" to the name of its socket for a second one.
	maxSocketPath = 108 - 1 - len(".ttrpc")
)

var (
	validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$`)
	minSizes  = map[string]int64{"ext4": 64 * mib, "xfs": 300 * mib, "btrfs": 128 * mib}
)

// BaseDir is the default for Config.Base.
func BaseDir() string {
	return cmp.Or(os.Getenv("EBB_NODE_DIR"), defaultBase)
}

// complete fills in the defaults, then returns the errors of all invalid fields.
func (c Config) complete() (Config, error) {
	c.Name = cmp.Or(c.Name, "node")
	c.FS = cmp.Or(c.FS, "ext4")
	c.SizeBytes = cmp.Or(c.SizeBytes, 1<<30)
	c.Containerd = cmp.Or(c.Containerd, Debian)
	c.Snapshotter = cmp.Or(c.Snapshotter, "overlayfs")
	c.Base = cmp.Or(c.Base, BaseDir())
	c.Log = cmp.Or(c.Log, io.Discard)

	var errs []error
	if !validName.MatchString(c.Name) {
		errs = append(errs, fmt.Errorf("name %q: want %s", c.Name, validName))
	}
	if minSize, ok := minSizes[c.FS]; !ok {
		errs = append(errs, fmt.Errorf("fs %q: want ext4, xfs or btrfs", c.FS))
	} else if c.SizeBytes < minSize {
		errs = append(errs, fmt.Errorf("size %d: %s needs at least %d", c.SizeBytes, c.FS, minSize))
	}
	if c.Containerd != Debian && c.Containerd != V2 {
		errs = append(errs, fmt.Errorf("containerd %q: want %s or %s", c.Containerd, Debian, V2))
	}
	switch c.Snapshotter {
	case "overlayfs", "native":
	case "erofs":
		if c.Containerd != V2 {
			errs = append(errs, fmt.Errorf("snapshotter erofs: needs containerd %s", V2))
		}
	default:
		errs = append(errs, fmt.Errorf("snapshotter %q: want overlayfs, native or erofs", c.Snapshotter))
	}
	// containerd's config has the path between quotes.
	if !filepath.IsAbs(c.Base) || filepath.Clean(c.Base) != c.Base || strings.ContainsAny(c.Base, "\"\\\n") {
		errs = append(errs, fmt.Errorf("base %q: want a clean absolute path without quotes", c.Base))
	}
	if p := layout(filepath.Join(c.Base, c.Name)).socket(); len(p) > maxSocketPath {
		errs = append(errs, fmt.Errorf("socket path %q: longer than %d bytes", p, maxSocketPath))
	}
	return c, errors.Join(errs...)
}

func (c Config) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.Log, nil)).With("node", c.Name)
}

// layout names the files of the node in a directory; see the package comment.
type layout string

func (l layout) path(elem ...string) string {
	return filepath.Join(append([]string{string(l)}, elem...)...)
}

func (l layout) name() string         { return filepath.Base(string(l)) }
func (l layout) disk() string         { return l.path("disk.img") }
func (l layout) mount() string        { return l.path("mnt") }
func (l layout) root() string         { return l.path("mnt", "containerd") }
func (l layout) fill(n string) string { return l.path("mnt", "fill", n) }
func (l layout) run() string          { return l.path("run") }
func (l layout) state() string        { return l.path("run", "containerd") }
func (l layout) runc() string         { return l.path("run", "runc") }
func (l layout) tmp() string          { return l.path("run", "tmp") }
func (l layout) logs() string         { return l.path("logs") }
func (l layout) socket() string       { return l.path("containerd.sock") }
func (l layout) config() string       { return l.path("config.toml") }
func (l layout) daemonLog() string    { return l.path("containerd.log") }

// cgroup is the parent of all cgroups of the node, in every hierarchy. The hash
// distinguishes nodes of the same name in different base directories. There is no parent
// common to all nodes: removing it would race with a node that starts.
func (l layout) cgroup() string {
	return fmt.Sprintf("/ebb-node-%s-%.4x", l.name(), sha256.Sum256([]byte(l)))
}
