package image

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/containerd/v2/pkg/atomicfile"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/ebb-agent/ebb/tools/ociarchive"
)

// MaxCompressed is the largest compressed size of the image of one architecture, in
// bytes.
const MaxCompressed = 40_000_000

// Options describe the image to make. The zero value of each field but Output has a
// meaning.
type Options struct {
	Tree   string // the clone to build; "." by default
	Output string // directory for the results

	// Name is the image's name. Default Repository; without a tag, the release is the
	// tag.
	Name          string
	Architectures []string // default: all
}

// Made describes the result. It is also written beside the archive, for programs.
type Made struct {
	Name     string     `json:"name"`    // full, with the tag
	Version  string     `json:"version"` // as the binaries report it
	Revision string     `json:"revision,omitempty"`
	Digest   string     `json:"digest"` // of the index
	Images   []Platform `json:"images"`
}

// Platform is the image of one architecture.
type Platform struct {
	Platform     string `json:"platform"` // such as linux/amd64
	Digest       string `json:"digest"`
	Compressed   int64  `json:"compressedBytes"` // manifest, config and layer
	Uncompressed int64  `json:"uncompressedBytes"`
}

// The files of the output.
const (
	ArchiveFile = "ebb.tar"
	SBOMFile    = "ebb.spdx.json"
	MadeFile    = "image.json"
)

func (o Options) complete() (Options, error) {
	o.Tree = cmp.Or(o.Tree, ".")
	if o.Output == "" {
		return o, fmt.Errorf("output: no directory")
	}
	if len(o.Architectures) == 0 {
		o.Architectures = Architectures
	}
	for _, arch := range o.Architectures {
		if !slices.Contains(Architectures, arch) {
			return o, fmt.Errorf("architecture %.40q: want some of %v", arch, Architectures)
		}
	}
	o.Architectures = slices.Compact(slices.Sorted(slices.Values(o.Architectures)))
	return o, nil
}

// Make builds the programs and packs them.
func Make(ctx context.Context, o Options) (Made, error) {
	o, err := o.complete()
	if err != nil {
		return Made{}, fmt.Errorf("make image: %w", err)
	}
	tmp, err := os.MkdirTemp("", "ebb-image-")
	if err != nil {
		return Made{}, fmt.Errorf("make image: %w", err)
	}
	defer os.RemoveAll(tmp)
	var list []program
	for _, arch := range o.Architectures {
		built, err := compile(ctx, o.Tree, filepath.Join(tmp, arch), arch)
		if err != nil {
			return Made{}, fmt.Errorf("make image: %w", err)
		}
		list = append(list, built...)
	}
	made, err := o.pack(ctx, list)
	if err != nil {
		return Made{}, fmt.Errorf("make image: %w", err)
	}
	return made, nil
}

// pack packs the programs into an image, and writes the output.
func (o Options) pack(ctx context.Context, list []program) (Made, error) {
	release, err := readRelease(o.Tree)
	if err != nil {
		return Made{}, err
	}
	f, err := readFacts(list, release, sourceDateEpoch())
	if err != nil {
		return Made{}, err
	}
	made := Made{Version: f.reported, Revision: f.revision}
	if made.Name, err = f.fullName(o.Name); err != nil {
		return made, err
	}
	shared, err := o.sharedFiles(ctx, f, list)
	if err != nil {
		return made, err
	}
	images := map[string]v1.Image{}
	for _, arch := range o.Architectures {
		img, platform, err := packImage(f, arch, list, shared)
		if err != nil {
			return made, err
		}
		images[arch], made.Images = img, append(made.Images, platform)
	}
	index := newIndex(f, images)
	digest, err := index.Digest()
	if err != nil {
		return made, err
	}
	made.Digest = digest.String()
	return made, o.write(f, index, made, shared[sbomFile].content)
}

// sharedFiles returns the files that are the same in every image of the index.
func (o Options) sharedFiles(ctx context.Context, f facts, list []program) (map[string]entry, error) {
	all := allModules(list)
	texts, err := readLicences(ctx, o.Tree, all)
	if err != nil {
		return nil, err
	}
	document, err := sbom(f, list, texts)
	if err != nil {
		return nil, err
	}
	return map[string]entry{
		"etc/passwd": {mode: 0o644, content: []byte(passwd)},
		"etc/group":  {mode: 0o644, content: []byte(group)},
		sbomFile:     {mode: 0o644, content: document},
		licence:      {mode: 0o644, file: filepath.Join(o.Tree, "LICENSE")},
		licenceGPL:   {mode: 0o644, file: filepath.Join(o.Tree, "LICENSES", "GPL-2.0-only.txt")},
		thirdParty:   {mode: 0o644, content: thirdParties(all, texts)},
	}, nil
}

func packImage(f facts, arch string, list []program, shared map[string]entry) (v1.Image, Platform, error) {
	p := Platform{Platform: "linux/" + arch}
	files := map[string]entry{}
	for name, e := range shared {
		files[name] = e
	}
	for _, program := range list {
		if program.arch == arch {
			files[binDir+program.name] = entry{mode: 0o755, file: program.file}
		}
	}
	content, unpacked, err := newLayer(files, f.created)
	if err != nil {
		return nil, p, err
	}
	img, err := newImage(f, arch, content)
	if err != nil {
		return nil, p, err
	}
	digest, err1 := img.Digest()
	size, err2 := img.Size()
	manifest, err3 := img.Manifest()
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, p, err
	}
	p.Digest, p.Compressed, p.Uncompressed = digest.String(), size+manifest.Config.Size+manifest.Layers[0].Size, unpacked
	if p.Compressed > MaxCompressed {
		return nil, p, fmt.Errorf("image for %s: %d bytes compressed, more than %d", arch, p.Compressed, MaxCompressed)
	}
	return img, p, nil
}

// write writes the output files. The archive is last: other programs wait for it.
func (o Options) write(f facts, index v1.ImageIndex, made Made, document []byte) error {
	if err := os.MkdirAll(o.Output, 0o755); err != nil {
		return err
	}
	summary, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{SBOMFile, func(w io.Writer) error { _, err := w.Write(document); return err }},
		{MadeFile, func(w io.Writer) error { _, err := w.Write(append(summary, '\n')); return err }},
		{ArchiveFile, func(w io.Writer) error { return ociarchive.Write(w, named(index, made.Name), f.created) }},
	} {
		if err := replace(filepath.Join(o.Output, file.name), file.write); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file atomically.
func replace(name string, write func(io.Writer) error) error {
	f, err := atomicfile.New(name, 0o644)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	if err := errors.Join(write(buffered), buffered.Flush()); err != nil {
		return fmt.Errorf("write %s: %w", name, errors.Join(err, f.Cancel()))
	}
	return f.Close()
}
