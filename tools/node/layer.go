package node

import (
	"archive/tar"
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Layer describes a layer's content: files of incompressible bytes below /data/SEED.
// Equal descriptions give equal bytes and digests, so all images share one blob and one
// snapshot on the node.
type Layer struct {
	Seed  string // letters, digits, ".", "_", "-"
	Bytes int64  // in all files together
	Files int    // default 1
}

var validSeed = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func (l Layer) validate() error {
	if !validSeed.MatchString(l.Seed) {
		return fmt.Errorf("layer seed %q: want %s", l.Seed, validSeed)
	}
	if l.Bytes < 0 || l.Files < 0 {
		return fmt.Errorf("layer %s: negative size", l.Seed)
	}
	return nil
}

// write writes the layer's tar archive, without holding it in memory.
func (l Layer) write(w *tar.Writer) error {
	files := int64(max(l.Files, 1))
	content := rand.NewChaCha8(sha256.Sum256([]byte(l.Seed)))
	if err := writeDirs(w, "data/", "data/"+l.Seed+"/"); err != nil {
		return err
	}
	for i := range files {
		size := l.Bytes / files
		if i == 0 {
			size += l.Bytes % files
		}
		name := "data/" + l.Seed + "/" + strconv.FormatInt(i, 10)
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}); err != nil {
			return err
		}
		if _, err := io.CopyN(w, content, size); err != nil {
			return err
		}
	}
	return nil
}

func writeDirs(w *tar.Writer, names ...string) error {
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}); err != nil {
			return err
		}
	}
	return nil
}

const busybox = "/bin/busybox"

// applets are the names that busybox gets in an image. All other applets run as
// "busybox NAME".
var applets = []string{
	"[", "cat", "cp", "cut", "date", "dd", "df", "echo", "env", "expr", "false", "find",
	"grep", "head", "id", "kill", "ln", "ls", "md5sum", "mkdir", "mount", "mv", "printf",
	"ps", "pwd", "rm", "rmdir", "sed", "sh", "sha256sum", "sleep", "sort", "stat", "sync",
	"tail", "test", "touch", "tr", "true", "usleep", "wc", "which", "xargs", "yes",
}

// writeBusybox writes the first layer of ordinary images: a static busybox and the
// directories that programs expect.
func writeBusybox(w *tar.Writer) error {
	if err := writeDirs(w, "bin/", "dev/", "etc/", "proc/", "root/", "sys/", "tmp/"); err != nil {
		return err
	}
	if err := writeProgram(w, "bin/busybox"); err != nil {
		return err
	}
	for _, name := range applets {
		h := tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777}
		if err := w.WriteHeader(&h); err != nil {
			return err
		}
	}
	return nil
}

// writePause writes the only layer of the sandbox image. It has its own busybox, so
// that the sandbox image, which is never removed, shares no layer with an image that
// may be.
func writePause(w *tar.Writer) error {
	if err := writeDirs(w, "dev/", "etc/", "pause/", "proc/", "sys/"); err != nil {
		return err
	}
	return writeProgram(w, "pause/busybox")
}

// writeProgram adds the machine's busybox under a name.
func writeProgram(w *tar.Writer, name string) error {
	f, err := os.Open(busybox)
	if err != nil {
		return fmt.Errorf("find busybox (apt-get install busybox-static): %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: st.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// stream is a v1.Layer whose bytes are generated each time they are read. It is not
// compressed: gzip would only cost time on incompressible content.
type stream struct {
	write func(*tar.Writer) error
	hash  v1.Hash
	size  int64
}

var _ v1.Layer = (*stream)(nil)

// streams caches digests: a layer shared by 200 images is hashed once.
var streams sync.Map // Layer, or the name of a fixed layer → func() (*stream, error)

func newStream(key any, write func(*tar.Writer) error) (*stream, error) {
	once, _ := streams.LoadOrStore(key, sync.OnceValues(func() (*stream, error) {
		s := &stream{write: write}
		r, err := s.Uncompressed()
		if err != nil {
			return nil, err
		}
		defer r.Close()
		s.hash, s.size, err = v1.SHA256(r)
		return s, err
	}))
	return once.(func() (*stream, error))()
}

func (s *stream) Digest() (v1.Hash, error)            { return s.hash, nil }
func (s *stream) DiffID() (v1.Hash, error)            { return s.hash, nil }
func (s *stream) Size() (int64, error)                { return s.size, nil }
func (s *stream) MediaType() (types.MediaType, error) { return types.OCIUncompressedLayer, nil }
func (s *stream) Compressed() (io.ReadCloser, error)  { return s.Uncompressed() }
func (s *stream) Uncompressed() (io.ReadCloser, error) {
	r, w := io.Pipe()
	// The goroutine ends with the archive, or when the reader closes its end.
	go func() {
		buffered := bufio.NewWriterSize(w, 1<<17)
		archive := tar.NewWriter(buffered)
		err := s.write(archive)
		w.CloseWithError(errors.Join(err, archive.Close(), buffered.Flush()))
	}()
	return r, nil
}
