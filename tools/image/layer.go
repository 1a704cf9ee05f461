package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Nonroot is the user, and group, that the image runs as unless told otherwise.
const Nonroot = 65532

const passwd = "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"
const group = "root:x:0:\nnonroot:x:65532:\n"

// Where things are in the image.
const (
	binDir     = "usr/bin/"
	sbomFile   = "usr/share/sbom/ebb.spdx.json"
	licence    = "usr/share/doc/ebb/LICENSE"
	thirdParty = "usr/share/doc/ebb/THIRD-PARTY"
)

// entry is a file of the image.
type entry struct {
	mode    int64
	content []byte
	file    string // holds the content, if set
}

// layer is a v1.Layer held in memory, compressed.
type layer struct {
	compressed   []byte
	digest, diff v1.Hash
	uncompressed int64
}

var _ v1.Layer = (*layer)(nil)

// newLayer packs files, by path without a leading slash. Equal files and time
// give equal bytes.
func newLayer(files map[string]entry, modified time.Time) (*layer, error) {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	sum := sha256.New()
	count := &counter{}
	archive := tar.NewWriter(io.MultiWriter(zip, sum, count))
	made := map[string]bool{".": true}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeParents(archive, path.Dir(name), modified, made); err != nil {
			return nil, fmt.Errorf("write layer: %w", err)
		}
		if err := writeEntry(archive, name, files[name], modified); err != nil {
			return nil, fmt.Errorf("write layer: %w", err)
		}
	}
	if err := archive.Close(); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	l := &layer{compressed: out.Bytes(), uncompressed: count.bytes}
	l.diff = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
	l.digest, _, err = v1.SHA256(bytes.NewReader(l.compressed))
	return l, err
}

// writeParents adds the directories that lead to dir, each once.
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

// counter counts what is written to it.
type counter struct{ bytes int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

func (l *layer) Digest() (v1.Hash, error)            { return l.digest, nil }
func (l *layer) DiffID() (v1.Hash, error)            { return l.diff, nil }
func (l *layer) Size() (int64, error)                { return int64(len(l.compressed)), nil }
func (l *layer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }
func (l *layer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.compressed)), nil
}
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	return gzip.NewReader(bytes.NewReader(l.compressed))
}
