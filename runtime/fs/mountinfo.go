package fs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// maxMountLine bounds one line of mountinfo. The kernel caps a mount's options
// at a page; paths and octal escapes multiply that, but not to a megabyte.
const maxMountLine = 1 << 20

// mount is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	id         uint64
	dev        uint64
	mountPoint string
	fsType     string
	compressed bool // by an option of the whole filesystem
}

var errMountLine = errors.New("malformed mountinfo line")

func findMount(id uint64) (mount, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return mount{}, fmt.Errorf("read mountinfo: %w", err)
	}
	defer f.Close()
	return scanMount(f, id)
}

// scanMount reads up to the mount with this ID. A busy node has thousands of
// lines, so other lines are skipped by their ID alone.
func scanMount(r io.Reader, id uint64) (mount, error) {
	prefix := strconv.FormatUint(id, 10) + " "
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4096), maxMountLine)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), prefix) {
			continue
		}
		return parseMount(lines.Text())
	}
	if err := lines.Err(); err != nil {
		return mount{}, fmt.Errorf("read mountinfo: %w", err)
	}
	return mount{}, fmt.Errorf("mount %d is not in mountinfo", id)
}

// parseMount reads "36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/x rw".
// The number of optional fields before the lone "-" varies.
func parseMount(line string) (mount, error) {
	f := strings.Split(line, " ")
	if len(f) < 9 {
		return mount{}, fmt.Errorf("%w: %d fields", errMountLine, len(f))
	}
	id, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil {
		return mount{}, fmt.Errorf("%w: mount ID: %w", errMountLine, err)
	}
	dev, err := parseDev(f[2])
	if err != nil {
		return mount{}, err
	}
	for i := 6; i < len(f)-1; i++ {
		if f[i] == "-" {
			options := strings.Split(f[len(f)-1], ",")
			return mount{id: id, dev: dev, mountPoint: unescape(f[4]), fsType: unescape(f[i+1]), compressed: slices.ContainsFunc(options, compresses)}, nil
		}
	}
	return mount{}, fmt.Errorf("%w: no separator", errMountLine)
}

// compresses reports whether an option of a btrfs has it compress new data: "compress=zstd:3" or "compress-force=lzo".
func compresses(option string) bool {
	name, by, _ := strings.Cut(option, "=")
	return (name == "compress" || name == "compress-force") && by != "none" && by != "no"
}

// parseDev turns "major:minor" into the kernel's own encoding (MKDEV), which
// is what a BPF program reads from super_block.s_dev.
func parseDev(s string) (uint64, error) {
	major, minor, ok := strings.Cut(s, ":")
	if !ok {
		return 0, fmt.Errorf("%w: device %q", errMountLine, s)
	}
	ma, err := strconv.ParseUint(major, 10, 12)
	if err != nil {
		return 0, fmt.Errorf("%w: major: %w", errMountLine, err)
	}
	mi, err := strconv.ParseUint(minor, 10, 20)
	if err != nil {
		return 0, fmt.Errorf("%w: minor: %w", errMountLine, err)
	}
	return ma<<20 | mi, nil
}

// unescape undoes the kernel's octal escapes of space, tab, newline and
// backslash. Anything else is kept as it is.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
