package sysdump

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/ebb-agent/ebb/agent/sysdump/redact"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Bounds of one file and of all files, in bytes.
const (
	maxFile  = 16 << 20
	maxTotal = 1 << 30
)

// archive spools files, from which secrets were removed, until all of them are known: the first
// file of the tar archive lists the others. It is safe for concurrent use.
type archive struct {
	begun time.Time

	mu     sync.Mutex
	spool  *os.File // the contents of all files, concatenated; unlinked
	files  []file
	size   int64
	errors []string
	notes  []string
}

// file is one file of an archive.
type file struct {
	name         string
	offset, size int64
	cut          bool
	redacted     redact.Counts
}

func newArchive(begun time.Time) (*archive, error) {
	spool, err := os.CreateTemp("", "ebb-sysdump-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	if err := os.Remove(spool.Name()); err != nil {
		return nil, fmt.Errorf("make a temporary file: %w", err)
	}
	return &archive{begun: begun, spool: spool}, nil
}

func (a *archive) close() { _ = a.spool.Close() }

// text removes secrets from a text, and adds it.
func (a *archive) text(data []byte, name ...string) {
	counts := redact.Counts{}
	a.add(redact.Text(string(data), counts), counts, name...)
}

// add adds data from which secrets were removed. The parts of the file's name are untrusted.
func (a *archive) add(data string, counts redact.Counts, name ...string) {
	f := file{name: path(name), cut: len(data) > maxFile, redacted: counts}
	if f.cut {
		data = data[:maxFile]
	}
	f.size = int64(len(data))
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.size+f.size > maxTotal {
		a.errors = append(a.errors, fmt.Sprintf("%s: left out: the archive would have more than %d MiB", f.name, maxTotal>>20))
		return
	}
	f.offset = a.size
	if _, err := a.spool.WriteAt([]byte(data), f.offset); err != nil {
		a.errors = append(a.errors, fmt.Sprintf("%s: left out: %v", f.name, err))
		return
	}
	a.size += f.size
	a.files = append(a.files, f)
}

// failed records what could not be read.
func (a *archive) failed(err error, name ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.errors = append(a.errors, fmt.Sprintf("%s: %s", path(name), fault.CleanUpTo(err.Error(), 2000)))
}

func (a *archive) note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notes = append(a.notes, fmt.Sprintf(format, args...))
}

// write writes the archive as a compressed tar archive.
func (a *archive) write(w io.Writer, version string) error {
	a.mu.Lock()
	errs := slices.Sorted(slices.Values(a.errors))
	a.mu.Unlock()
	if len(errs) > 0 {
		a.text([]byte(strings.Join(errs, "\n")+"\n"), "errors.txt")
	}
	slices.SortFunc(a.files, func(x, y file) int { return strings.Compare(x.name, y.name) })
	packed := gzip.NewWriter(w)
	t := tar.NewWriter(packed)
	contents := redact.Text(a.contents(version), redact.Counts{})
	if err := a.member(t, "CONTENTS.txt", int64(len(contents)), strings.NewReader(contents)); err != nil {
		return err
	}
	for _, f := range a.files {
		if err := a.member(t, f.name, f.size, io.NewSectionReader(a.spool, f.offset, f.size)); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	if err := packed.Close(); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}

// directory returns the directory in the archive that has all files.
func (a *archive) directory() string {
	return "ebb-sysdump-" + a.begun.UTC().Format("20060102T150405Z")
}

func (a *archive) member(t *tar.Writer, name string, size int64, content io.Reader) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: a.directory() + "/" + name, Size: size, Mode: 0o600, ModTime: a.begun.Truncate(time.Second)}
	err := t.WriteHeader(h)
	if err == nil {
		_, err = io.Copy(t, content)
	}
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}

// contents returns the text of CONTENTS.txt.
func (a *archive) contents(version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "ebb sysdump, begun %s, by ebb %s\n\n", a.begun.UTC().Format(time.RFC3339), version)
	b.WriteString("No Secret was read. Values of environment variables, and annotations that are not ebb's,\n" +
		"were left out. " + redact.Mask + " stands where something else looked like a secret. Names of nodes,\n" +
		"namespaces, pods and images are in these files: look through them before you hand them on.\n\n")
	for _, note := range a.notes {
		b.WriteString(note + "\n\n")
	}
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "BYTES\tFILE\tTAKEN OUT")
	for _, f := range a.files {
		var remarks []string
		if f.cut {
			remarks = append(remarks, "the end: longer than the bound")
		}
		for _, what := range slices.Sorted(maps.Keys(f.redacted)) {
			remarks = append(remarks, fmt.Sprintf("%d × %s", f.redacted[what], what))
		}
		fmt.Fprintf(t, "%d\t%s\t%s\n", f.size, f.name, strings.Join(remarks, ", "))
	}
	_ = t.Flush() // to a Builder
	return b.String()
}

// path makes a file's name of untrusted parts.
func path(parts []string) string {
	clean := make([]string, len(parts))
	for i, part := range parts {
		clean[i] = safe(part)
	}
	return strings.Join(clean, "/")
}

// safe makes one part of a file's name of untrusted text.
func safe(part string) string {
	part = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}, part)
	if part = strings.TrimLeft(part, "."); part == "" {
		return "_"
	}
	return part[:min(len(part), 200)]
}
