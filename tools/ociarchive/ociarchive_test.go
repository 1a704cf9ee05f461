package ociarchive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	containerd "github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/containerd/v2/plugins/content/local"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func under(name string, what mutate.Appendable) mutate.IndexAddendum {
	return mutate.IndexAddendum{Add: what, Descriptor: v1.Descriptor{Annotations: map[string]string{images.AnnotationImageName: name}}}
}

// TestImported has containerd's own code take an archive: an image of two names, one that
// shares its layers, and an index.
func TestImported(t *testing.T) {
	one, err1 := random.Image(1000, 3)
	labelled, err2 := mutate.Config(one, v1.Config{Labels: map[string]string{"a": "b"}})
	below, err3 := random.Index(500, 1, 2)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	top := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		under("a:1", one), under("a:2", one), under("b:1", labelled), under("c:1", below))
	var out, again bytes.Buffer
	for _, w := range []io.Writer{&out, &again} {
		if err := Write(w, top, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Error("the same images make two different archives")
	}
	checkFiles(t, out.Bytes())

	store, err := local.NewStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	descriptor, err := containerd.ImportIndex(t.Context(), store, &out)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	blobs := 0
	walk := images.HandlerFunc(func(_ context.Context, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		blobs++
		names[d.Annotations[images.AnnotationImageName]] = true
		if _, err := store.Info(t.Context(), d.Digest); err != nil {
			t.Errorf("%s %s: %v", d.MediaType, d.Digest, err)
		}
		return nil, nil
	})
	if err := images.Walk(t.Context(), images.Handlers(walk, images.ChildrenHandler(store)), descriptor); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, []string{"", "a:1", "a:2", "b:1", "c:1"}) {
		t.Errorf("the names are %q", got)
	}
	if blobs < 15 {
		t.Errorf("%d blobs are found", blobs)
	}
}

// checkFiles: what it is comes first, and nothing comes twice.
func checkFiles(t *testing.T, data []byte) {
	t.Helper()
	var names []string
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(names, h.Name) {
			t.Errorf("%s is there twice", h.Name)
		}
		names = append(names, h.Name)
	}
	// Manifests, configs and layers of one, of labelled, of the two below, and their index.
	if want := 2 + (2 + 3) + 2 + 2*(2+1) + 1; len(names) != want || names[0] != "oci-layout" || names[1] != "index.json" {
		t.Errorf("%d files, want %d: %q", len(names), want, names)
	}
}
