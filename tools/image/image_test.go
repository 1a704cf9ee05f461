package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/tools/ociarchive"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestLayer packs random files and reads them back: all of them, in order, each
// below directories that came before it, and nothing of the builder.
func TestLayer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-c](/[a-c]){0,2}/[x-z]{1,3}`)
		files := map[string]entry{}
		for n, content := range rapid.MapOf(name, rapid.SliceOfN(rapid.Byte(), 0, 50)).Draw(t, "files") {
			files[n] = entry{mode: rapid.SampledFrom([]int64{0o644, 0o755}).Draw(t, "mode"), content: content}
		}
		l, _, err := newLayer(files, noon)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := newLayer(maps.Clone(files), noon)
		if err != nil || digestOf(t, again) != digestOf(t, l) {
			t.Fatalf("made twice: %s and %s, %v", digestOf(t, l), digestOf(t, again), err)
		}
		if err := validate.Layer(l); err != nil {
			t.Fatal(err)
		}
		checkLayer(t, l, files)
	})
}

func digestOf(t *rapid.T, l v1.Layer) v1.Hash {
	digest, err := l.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func checkLayer(t *rapid.T, l v1.Layer, files map[string]entry) {
	r, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	dirs, last, found := map[string]bool{"./": true}, "", 0
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(noon) {
			t.Fatalf("%s has owner %d:%d %q and time %s", h.Name, h.Uid, h.Gid, h.Uname, h.ModTime)
		}
		if parent := path.Dir(strings.TrimSuffix(h.Name, "/")) + "/"; !dirs[parent] {
			t.Fatalf("%s comes before %s", h.Name, parent)
		}
		if h.Typeflag == tar.TypeDir {
			if dirs[h.Name] {
				t.Fatalf("%s twice", h.Name)
			}
			dirs[h.Name] = true
			continue
		}
		content, err := io.ReadAll(archive)
		if want := files[h.Name]; err != nil || !bytes.Equal(content, want.content) || h.Mode != want.mode {
			t.Fatalf("%s: mode %o, %q, %v; want %+v", h.Name, h.Mode, content, err, want)
		}
		if h.Name <= last {
			t.Fatalf("%s comes after %s", h.Name, last)
		}
		last, found = h.Name, found+1
	}
	if found != len(files) {
		t.Fatalf("%d files of %d", found, len(files))
	}
}

func TestLayerFails(t *testing.T) {
	_, _, err := newLayer(map[string]entry{"a": {file: "/does/not/exist"}}, noon)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

var testFacts = facts{release: "1.2.3", reported: "1.2.3+g0123", version: "v1.2.3", revision: "0123", golang: "go1.26.8", created: noon}

// testIndex is an index of two small images, which differ in one file.
func testIndex(t *testing.T, f facts) v1.ImageIndex {
	t.Helper()
	images := map[string]v1.Image{}
	for _, arch := range Architectures {
		l, _, err := newLayer(map[string]entry{
			"etc/passwd": {mode: 0o644, content: []byte(passwd)}, "usr/bin/ebb": {mode: 0o755, content: []byte(arch)},
		}, f.created)
		if err != nil {
			t.Fatal(err)
		}
		if images[arch], err = newImage(f, arch, l); err != nil {
			t.Fatal(err)
		}
	}
	return newIndex(f, images)
}

// TestArchive unpacks an archive as a layout, and has another implementation
// check all of its digests, sizes and media types.
func TestArchive(t *testing.T) {
	var b, again bytes.Buffer
	for _, w := range []io.Writer{&b, &again} {
		if err := ociarchive.Write(w, named(testIndex(t, testFacts), "example.com/ebb:v1.2.3"), noon); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("the same image makes two different archives")
	}
	dir := t.TempDir()
	unpackTar(t, &b, dir)
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("index.json: %+v, %v", manifest, err)
	}
	if got := manifest.Manifests[0].Annotations; got[images.AnnotationImageName] != "example.com/ebb:v1.2.3" || got["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Errorf("the archive names its image %v", got)
	}
}

func unpackTar(t *testing.T, r io.Reader, dir string) {
	t.Helper()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestImageConfig(t *testing.T) {
	index := testIndex(t, testFacts)
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, d := range manifest.Manifests {
		platforms = append(platforms, d.Platform.String())
		img, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		c, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Config.Entrypoint) != 0 || c.Config.User != "65532:65532" || c.Architecture != d.Platform.Architecture || !c.Created.Equal(noon) {
			t.Errorf("config: %+v", c)
		}
		if c.Config.Labels["org.opencontainers.image.revision"] != "0123" {
			t.Errorf("labels: %v", c.Config.Labels)
		}
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("platforms %s", got)
	}
	if manifest.Annotations["org.opencontainers.image.version"] != testFacts.reported {
		t.Errorf("annotations: %v", manifest.Annotations)
	}
}

func TestLayerIsGzip(t *testing.T) {
	l, _, err := newLayer(map[string]entry{"a": {content: []byte("x")}}, noon)
	if err != nil {
		t.Fatal(err)
	}
	compressed, err := l.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer compressed.Close()
	r, err := gzip.NewReader(compressed)
	if err != nil {
		t.Fatal(err)
	}
	if !r.ModTime.IsZero() || r.Name != "" {
		t.Errorf("the compressed layer has time %s and name %q", r.ModTime, r.Name)
	}
}
