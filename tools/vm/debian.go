package vm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/textproto"
	"path/filepath"
	"strings"
)

const imagePrefix = "linux-image-"

// debianPackage is one version of one package.
type debianPackage struct {
	name, version string
	depends       string
}

// errStanza is the error for a package description without a package or a version.
var errStanza = errors.New("no package and version in apt's answer")

// resolve returns the package of the release that a kernel's name means now. The
// package with the short name depends on it.
func (a apt) resolve(ctx context.Context, name string) (debianPackage, error) {
	meta, err := a.show(ctx, imagePrefix+name)
	if err != nil {
		return debianPackage{}, err
	}
	image := firstImage(meta.depends)
	if image == "" {
		return debianPackage{}, fmt.Errorf("%s depends on no kernel: %q", meta.name, meta.depends)
	}
	return a.show(ctx, image)
}

func (a apt) show(ctx context.Context, name string) (debianPackage, error) {
	out, err := a.run(ctx, "", "apt-cache", "show", "--no-all-versions", name)
	if err != nil {
		return debianPackage{}, err
	}
	return parseStanza(out)
}

// parseStanza reads the first description in apt's output.
func parseStanza(text string) (debianPackage, error) {
	first, _, _ := strings.Cut(text, "\n\n")
	fields, err := textproto.NewReader(bufio.NewReader(strings.NewReader(first + "\n\n"))).ReadMIMEHeader()
	p := debianPackage{fields.Get("Package"), fields.Get("Version"), fields.Get("Depends")}
	if err != nil || p.name == "" || p.version == "" {
		return debianPackage{}, fmt.Errorf("%w: %.200q", errStanza, text)
	}
	return p, nil
}

// firstImage returns the name of the kernel package in a list of dependencies.
func firstImage(depends string) string {
	for _, d := range strings.Split(depends, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(d), " ")
		if strings.HasPrefix(name, imagePrefix) {
			return name
		}
	}
	return ""
}

// download downloads that version of a package and returns the file. apt checks it
// against the archive's signature.
func (a apt) download(ctx context.Context, dir string, p debianPackage) (string, error) {
	if _, err := a.run(ctx, dir, "apt-get", "download", p.name+"="+p.version); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("download %s: %d files came", p.name, len(files))
	}
	return files[0], nil
}
