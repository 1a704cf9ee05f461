// Package sysdumptest reads archives of ebb sysdump, for tests.
package sysdumptest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"strings"
)

// T is a *testing.T, or one of rapid's.
type T interface{ Fatal(...any) }

// Unpack returns the files of an archive by their names below its directory. It fails the test if
// the first file is not CONTENTS.txt, or if a file has an invalid path or a mode other than 0600.
func Unpack(t T, in io.Reader) map[string]string {
	packed, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(packed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		if len(files) == 0 && name != "CONTENTS.txt" || !fs.ValidPath(h.Name) || h.Mode != 0o600 {
			t.Fatal(h.Name, h.Mode)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
	}
}
