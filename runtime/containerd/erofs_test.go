package containerd

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/containerd/containerd/v2/core/mount"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

func TestErofsLayers(t *testing.T) {
	erofs := func(source string, options ...string) mount.Mount {
		return mount.Mount{Type: "erofs", Source: source, Options: append([]string{"ro", "loop"}, options...)}
	}
	overlay := mount.Mount{Type: "format/mkdir/overlay", Source: "overlay"}
	for name, tt := range map[string]struct {
		mounts []mount.Mount
		want   []string // nil: unsupported
	}{
		"many":         {[]mount.Mount{erofs("/s/3/layer.erofs"), erofs("/s/1/layer.erofs"), overlay}, []string{"/s/3/layer.erofs", "/s/1/layer.erofs"}},
		"view of one":  {[]mount.Mount{erofs("/s/1/layer.erofs"), {Type: "format/bind"}}, []string{"/s/1/layer.erofs"}},
		"block mode":   {[]mount.Mount{{Type: "mkfs/ext4", Source: "/s/4/rw"}, erofs("/s/1/layer.erofs"), overlay}, []string{"/s/1/layer.erofs"}},
		"merged":       {[]mount.Mount{erofs("/s/3/fsmeta.erofs", "device=/s/1/layer.erofs"), overlay}, nil},
		"merged, else": {[]mount.Mount{erofs("/s/3/x.erofs", "device=/s/1/layer.erofs"), overlay}, nil},
		"relative":     {[]mount.Mount{erofs("s/1/layer.erofs")}, nil},
		"overlayfs":    {[]mount.Mount{{Type: "overlay"}}, nil},
		"none":         {nil, nil},
	} {
		got, err := erofsLayers(tt.mounts)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) || err != nil && !errors.Is(err, inventory.ErrUnsupported) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tt.want)
		}
	}
}

// An image that mkfs.erofs made; the kernel programs' tests mount the same one.
func TestErofsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "layer.erofs")
	if err := os.WriteFile(path, erofsImage(t), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := erofsPlace(path)
	want := inventory.Place{Path: path, Ino: 0x24, UUID: [16]byte{
		0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55}}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if err := os.Truncate(path, 1030); err != nil {
		t.Fatal(err)
	}
	if _, err := erofsPlace(path); !errors.Is(err, inventory.ErrUnsupported) {
		t.Errorf("cut short: %v", err)
	}
	if _, err := erofsPlace(filepath.Dir(path)); err == nil {
		t.Error("a directory was read")
	}
}

func erofsImage(t testing.TB) []byte {
	t.Helper()
	packed, err := os.ReadFile("../../bpf/testdata/a.erofs.gz")
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	image, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func FuzzParseErofs(f *testing.F) {
	f.Add(erofsImage(f)[erofsSuper:][:128])
	f.Add([]byte{})
	f.Add(make([]byte, 128))
	f.Fuzz(func(t *testing.T, super []byte) {
		got, err := parseErofs(super)
		if err == nil && got.UUID == ([16]byte{}) || err != nil && got != (inventory.Place{}) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
