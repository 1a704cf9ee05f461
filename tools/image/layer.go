package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Nonroot is the ID of the image's default user and group.
const Nonroot = 65532

const passwd = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
const group = "root:x:0:\nnonroot:x:65532:\n"

// Paths in the image.
const (
	binDir     = "usr/bin/"
	sbomFile   = "usr/share/sbom/ebb.spdx.json"
	licence    = "usr/share/doc/ebb/LICENSE"
	licenceGPL = "usr/share/doc/ebb/LICENSE-GPL-2.0-only"
	thirdParty = "usr/share/doc/ebb/THIRD-PARTY"
)

// entry is a file of the image.
type entry struct {
	mode    int64
	content []byte
	file    string // holds the content, if set
}

// newLayer packs files, by path without a leading slash, and returns their uncompressed
// size in bytes. Equal files and times give equal bytes.
func newLayer(files map[string]entry, modified time.Time) (v1.Layer, int64, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	made := map[string]bool{".": true}
	var err error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err = errors.Join(err, writeParents(archive, path.Dir(name), modified, made), writeEntry(archive, name, files[name], modified))
	}
	if err := errors.Join(err, archive.Close()); err != nil {
		return nil, 0, fmt.Errorf("write layer: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(out.Bytes())), nil
	}, tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, 0, fmt.Errorf("write layer: %w", err)
	}
	return layer, int64(out.Len()), nil
}

// writeParents adds dir and its parents, each once.
func writeParents(archive *tar.Writer, dir string, modified time.Time, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	made[dir] = true
	if err := writeParents(archive, path.Dir(dir), modified, made); err != nil {
		return err
	}
	return archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: modified, Format: tar.FormatUSTAR,
	})
}

func writeEntry(archive *tar.Writer, name string, e entry, modified time.Time) error {
	if e.file != "" {
		var err error
		if e.content, err = os.ReadFile(e.file); err != nil {
			return err
		}
	}
	err := archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: e.mode, Size: int64(len(e.content)), ModTime: modified, Format: tar.FormatUSTAR,
	})
	if err != nil {
		return err
	}
	_, err = archive.Write(e.content)
	return err
}
