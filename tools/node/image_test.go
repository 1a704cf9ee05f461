package node

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"pgregory.net/rapid"
)

func build(t *testing.T, i Image) v1.Image {
	t.Helper()
	img, err := i.build()
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func id(t *testing.T, i Image) string {
	t.Helper()
	name, err := build(t, i).ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return name.String()
}

func TestImagesAreValid(t *testing.T) {
	for name, image := range map[string]archivable{
		"busybox only": Image{Name: "a"},
		"layers":       Image{Name: "a", Layers: []Layer{{Seed: "x", Bytes: 1000, Files: 3}, {Seed: "y"}}},
		"bare":         Image{Name: "a", NoBusybox: true, Layers: []Layer{{Seed: "x", Bytes: 1}}},
		"sandbox":      pause{},
	} {
		img, err := image.build()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// Fast: the slow checks of layers take every layer for gzip.
		if err := validate.Image(img, validate.Fast); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		layers, err := img.Layers()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, layer := range layers {
			checkDigest(t, layer)
		}
	}
}

// checkDigest reads a layer, which is made anew for that, against its digest.
func checkDigest(t *testing.T, layer v1.Layer) {
	t.Helper()
	want, err := layer.Digest()
	if err != nil {
		t.Fatal(err)
	}
	r, err := layer.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, _, err := v1.SHA256(r); err != nil || got != want {
		t.Errorf("layer reads as %v, %v; its digest is %v", got, err, want)
	}
}

func TestEqualSpecsAreEqualImages(t *testing.T) {
	app := Image{Name: "app", Layers: []Layer{{Seed: "base", Bytes: 5000, Files: 2}, {Seed: "app", Bytes: 100}}}
	renamed := app
	renamed.Name, renamed.Tags = "other", []string{"more"}
	if id(t, app) != id(t, renamed) {
		t.Error("names change the image")
	}
	for what, other := range map[string]Image{
		"a label":    {Name: "app", Layers: app.Layers, Labels: map[string]string{"k": "v"}},
		"a command":  {Name: "app", Layers: app.Layers, Cmd: []string{"true"}},
		"the order":  {Name: "app", Layers: []Layer{app.Layers[1], app.Layers[0]}},
		"no busybox": {Name: "app", Layers: app.Layers, NoBusybox: true},
		"a seed":     {Name: "app", Layers: []Layer{{Seed: "base2", Bytes: 5000, Files: 2}, app.Layers[1]}},
	} {
		if id(t, app) == id(t, other) {
			t.Errorf("%s does not change the image", what)
		}
	}
}

// TestLayerContent reads layers back: sizes and names are as described, and
// only equal descriptions have equal bytes.
func TestLayerContent(t *testing.T) {
	seen := make(map[string]Layer) // archive → what it was made from
	rapid.Check(t, func(t *rapid.T) {
		l := Layer{
			Seed:  rapid.StringMatching(`[a-c][0-9]?`).Draw(t, "seed"),
			Bytes: rapid.Int64Range(0, 5000).Draw(t, "bytes"),
			Files: rapid.IntRange(0, 20).Draw(t, "files"),
		}
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := errors.Join(l.write(w), w.Close()); err != nil {
			t.Fatal(err)
		}
		// One file is the default, so these two describe the same.
		canonical := l
		canonical.Files = max(l.Files, 1)
		if other, ok := seen[b.String()]; ok && other != canonical {
			t.Fatalf("%+v and %+v have the same content", l, other)
		}
		seen[b.String()] = canonical

		files, size := readLayer(t, &b, "data/"+l.Seed)
		if files != canonical.Files || size != l.Bytes {
			t.Fatalf("%+v has %d files of %d bytes", l, files, size)
		}
	})
}

func readLayer(t *rapid.T, r io.Reader, dir string) (files int, size int64) {
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, size
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if path.Dir(h.Name) != dir {
				t.Fatalf("file %s is not in %s", h.Name, dir)
			}
			files++
			size += h.Size
		}
	}
}

func TestArchiveHasEachBlobOnce(t *testing.T) {
	shared := Layer{Seed: "shared", Bytes: 100 << 10}
	var list []archivable
	var built []v1.Image
	for n := range 3 {
		image := Image{Name: fmt.Sprint("app", n), Tags: []string{fmt.Sprint("tag", n)},
			Layers: []Layer{shared, {Seed: fmt.Sprint("own", n), Bytes: 10}}}
		list, built = append(list, image), append(built, build(t, image))
	}
	var b bytes.Buffer
	if err := writeArchive(&b, list, built); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]int)
	for archive := tar.NewReader(&b); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names[h.Name]++
	}
	// busybox and shared; own layer, config and manifest of each; layout, index.
	if want := 2 + 3*3 + 2; len(names) != want {
		t.Errorf("archive has %d entries, want %d: %v", len(names), want, names)
	}
	for name, times := range names {
		if times != 1 {
			t.Errorf("archive has %s %d times", name, times)
		}
	}
}

func TestImageErrors(t *testing.T) {
	_, err := Image{NoBusybox: true}.build()
	wantAll(t, err, "name: empty", "layers: none")
	_, err = Image{Name: "a", Layers: []Layer{{Seed: "../x"}, {Seed: ""}, {Seed: "ok", Bytes: -1}}}.build()
	wantAll(t, err, `seed "../x"`, `seed ""`, "layer ok: negative size")
}

func TestConfigErrors(t *testing.T) {
	_, err := Config{
		Name: "a/b", FS: "vfat", SizeBytes: 1, Containerd: "podman", Base: "relative",
	}.complete()
	wantAll(t, err, `name "a/b"`, `fs "vfat"`, `containerd "podman"`, `base "relative"`)
	_, err = Config{FS: "xfs", SizeBytes: 299 * mib}.complete()
	wantAll(t, err, "xfs needs at least")
	_, err = Config{Base: "/" + strings.Repeat("x", 90)}.complete()
	wantAll(t, err, "socket path")
	_, err = Config{Base: `/a"b`}.complete()
	wantAll(t, err, "without quotes")

	c, err := Config{}.complete()
	if err != nil {
		t.Fatal(err)
	}
	if c.Name == "" || c.FS != "ext4" || c.SizeBytes != 1<<30 || c.Containerd != Debian || c.Base != BaseDir() || c.Log == nil {
		t.Errorf("defaults: %+v", c)
	}
}

func wantAll(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %q", parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error lacks %q: %v", part, err)
		}
	}
}
