package fs

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestParseMount(t *testing.T) {
	tests := []struct {
		name, line string
		want       mount
		bad        bool
	}{
		{
			name: "optional fields", line: "36 35 98:1 /r /mnt rw,noatime shared:1 master:2 - ext4 /dev/sda rw",
			want: mount{id: 36, dev: 98<<20 | 1, mountPoint: "/mnt", fsType: "ext4"},
		},
		{
			name: "none", line: "36 35 0:300 / /mnt rw - btrfs /dev/sda rw",
			want: mount{id: 36, dev: 300, mountPoint: "/mnt", fsType: "btrfs"},
		},
		{
			name: "escapes", line: `36 35 0:3 / /a\040b\134c\012d rw - xfs none rw`,
			want: mount{id: 36, dev: 3, mountPoint: "/a b\\c\nd", fsType: "xfs"},
		},
		{name: "dash as mount point", line: "36 35 0:3 / - rw - xfs none rw", want: mount{id: 36, dev: 3, mountPoint: "-", fsType: "xfs"}},
		{name: "compressed", line: "36 35 0:3 / /a rw - btrfs /dev/sda rw,compress=zstd:3,space_cache=v2", want: mount{id: 36, dev: 3, mountPoint: "/a", fsType: "btrfs", compressed: true}},
		{name: "compressed by force", line: "36 35 0:3 / /a rw - btrfs /dev/sda rw,compress-force=lzo", want: mount{id: 36, dev: 3, mountPoint: "/a", fsType: "btrfs", compressed: true}},
		{name: "not compressed", line: "36 35 0:3 /compress=zlib /a rw - btrfs /dev/sda rw,compress=none", want: mount{id: 36, dev: 3, mountPoint: "/a", fsType: "btrfs"}},
		{name: "empty", line: "", bad: true},
		{name: "no separator", line: "36 35 98:1 /r /mnt rw shared:1 ext4 /dev/sda rw", bad: true},
		{name: "separator last", line: "36 35 98:1 /r /mnt rw shared:1 master:2 -", bad: true},
		{name: "device", line: "36 35 98 /r /mnt rw - ext4 /dev/sda rw", bad: true},
		{name: "huge minor", line: "36 35 1:1048576 /r /mnt rw - ext4 /dev/sda rw", bad: true},
		{name: "negative", line: "-1 35 1:1 /r /mnt rw - ext4 /dev/sda rw", bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseMount(tt.line)
			if tt.bad {
				if !errors.Is(err, errMountLine) {
					t.Errorf("got %+v, %v; want an error", got, err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

func TestScanMount(t *testing.T) {
	const table = "1 0 0:1 / / rw - ext4 none rw\n11 1 0:2 / /b rw - xfs none rw\n"
	if m, err := scanMount(strings.NewReader(table), 11); err != nil || m.mountPoint != "/b" {
		t.Errorf("got %+v, %v", m, err)
	}
	if _, err := scanMount(strings.NewReader(table), 2); err == nil {
		t.Error("found a mount that is not there")
	}
	if _, err := scanMount(strings.NewReader(strings.Repeat("x", maxMountLine+1)), 2); err == nil {
		t.Error("an endless line was read")
	}
}

func FuzzParseMount(f *testing.F) {
	if own, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		for line := range strings.Lines(string(own)) {
			f.Add(strings.TrimSuffix(line, "\n"))
		}
	}
	f.Add(`36 35 0:3 / /a\04 rw - xfs none rw`)
	f.Fuzz(func(t *testing.T, line string) {
		m, err := parseMount(line)
		if err == nil && m.dev >= 1<<32 {
			t.Errorf("device %#x does not fit the kernel's dev_t", m.dev)
		}
	})
}
