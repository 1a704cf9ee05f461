// Package ociarchive writes container images as one tar stream, an OCI image layout. "ctr
// images import" and containerd's client read it.
package ociarchive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Write writes the layout with index as its top index. The two files that identify the
// layout come first, then every blob once. The same index and time give the same bytes.
func Write(w io.Writer, index v1.ImageIndex, modified time.Time) error {
	raw, err := index.RawManifest()
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	a := archive{tar.NewWriter(w), modified, map[v1.Hash]bool{}}
	layout := []byte(`{"imageLayoutVersion":"` + ocispec.ImageLayoutVersion + `"}`)
	if err := errors.Join(a.file(ocispec.ImageLayoutFile, layout), a.file(ocispec.ImageIndexFile, raw), a.index(index), a.Close()); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

// archive is a layout being written. It records the blobs that it has.
type archive struct {
	*tar.Writer
	modified time.Time
	written  map[v1.Hash]bool
}

// index writes everything that an index refers to.
func (a archive) index(index v1.ImageIndex) error {
	below, err := partial.Manifests(index)
	if err != nil {
		return err
	}
	for _, m := range below {
		switch m := m.(type) {
		case v1.ImageIndex:
			err = errors.Join(a.manifest(m), a.index(m))
		case v1.Image:
			err = a.image(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a archive) image(image v1.Image) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		if err := a.layer(layer); err != nil {
			return err
		}
	}
	config, err := partial.ConfigLayer(image)
	if err != nil {
		return err
	}
	return errors.Join(a.layer(config), a.manifest(image))
}

func (a archive) layer(layer v1.Layer) error {
	digest, err := layer.Digest()
	if err != nil || a.written[digest] {
		return err
	}
	a.written[digest] = true
	size, err := layer.Size()
	if err != nil {
		return err
	}
	r, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer r.Close()
	return a.entry(blobPath(digest), size, r)
}

// manifest writes the manifest of an image or of an index.
func (a archive) manifest(of partial.WithRawManifest) error {
	raw, err := of.RawManifest()
	if err != nil {
		return err
	}
	return a.layer(static.NewLayer(raw, ""))
}

func (a archive) file(name string, data []byte) error {
	return a.entry(name, int64(len(data)), bytes.NewReader(data))
}

func (a archive) entry(name string, size int64, content io.Reader) error {
	h := tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, ModTime: a.modified, Format: tar.FormatUSTAR}
	if err := a.WriteHeader(&h); err != nil {
		return err
	}
	_, err := io.Copy(a.Writer, content)
	return err
}

func blobPath(digest v1.Hash) string {
	return path.Join(ocispec.ImageBlobsDir, digest.Algorithm, digest.Hex)
}
