package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// containerdName is how containerd's import learns an image's full name; the OCI
// annotation is for its tag alone.
const containerdName = "io.containerd.image.name"

// writeArchive writes an OCI image layout, as one tar file, that holds the index
// under a name.
func writeArchive(w io.Writer, index v1.ImageIndex, name string, modified time.Time) error {
	blobs, top, err := collect(index)
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	top.Annotations = map[string]string{
		containerdName:            name,
		ocispec.AnnotationRefName: name[strings.LastIndex(name, ":")+1:],
	}
	raw, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{top}})
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	// The two that tell what it is come first: containerd looks for them.
	files := append([]blob{
		{ocispec.ImageLayoutFile, []byte(`{"imageLayoutVersion":"` + ocispec.ImageLayoutVersion + `"}`)},
		{ocispec.ImageIndexFile, raw},
	}, blobs...)
	archive := tar.NewWriter(w)
	for _, b := range files {
		err = errors.Join(err, writeEntry(archive, b.path, entry{mode: 0o644, content: b.content}, modified))
	}
	if err = errors.Join(err, archive.Close()); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

// blob is a file of the layout.
type blob struct {
	path    string
	content []byte
}

// collect returns all blobs that an index leads to, sorted and each once, and
// how to refer to the index itself.
func collect(index v1.ImageIndex) ([]blob, v1.Descriptor, error) {
	none := v1.Descriptor{}
	raw, err := index.RawManifest()
	if err != nil {
		return nil, none, err
	}
	digest, size, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return nil, none, err
	}
	blobs := []blob{{blobPath(digest), raw}}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, none, err
	}
	for _, d := range manifest.Manifests {
		img, err := index.Image(d.Digest)
		if err != nil {
			return nil, none, err
		}
		of, err := imageBlobs(d.Digest, img)
		if err != nil {
			return nil, none, err
		}
		blobs = append(blobs, of...)
	}
	slices.SortFunc(blobs, func(a, b blob) int { return strings.Compare(a.path, b.path) })
	blobs = slices.CompactFunc(blobs, func(a, b blob) bool { return a.path == b.path })
	return blobs, v1.Descriptor{MediaType: types.OCIImageIndex, Digest: digest, Size: size}, nil
}

// imageBlobs returns manifest, config and layers.
func imageBlobs(digest v1.Hash, img v1.Image) ([]blob, error) {
	manifest, err := img.RawManifest()
	if err != nil {
		return nil, err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	id, err := img.ConfigName()
	if err != nil {
		return nil, err
	}
	blobs := []blob{{blobPath(digest), manifest}, {blobPath(id), config}}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		of, err := l.Digest()
		if err != nil {
			return nil, err
		}
		r, err := l.Compressed()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		blobs = append(blobs, blob{blobPath(of), content})
	}
	return blobs, nil
}

func blobPath(digest v1.Hash) string {
	return path.Join(ocispec.ImageBlobsDir, digest.Algorithm, digest.Hex)
}
