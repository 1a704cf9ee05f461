package node

import (
	"archive/tar"
	"errors"
	"fmt"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image describes an image to be built and imported. Names are not part of an image's
// content: two Images that differ only in Name and Tags are one image with more names.
type Image struct {
	Name   string   // a full reference, such as "node.test/app:1"
	Tags   []string // further full references
	Layers []Layer  // above busybox

	// NoBusybox leaves out the layer that all other images begin with. Nothing
	// can run in such an image, and it shares nothing.
	NoBusybox bool

	Entrypoint []string
	Cmd        []string          // default: sleep forever
	Labels     map[string]string // distinguish images with equal layers
}

// sleepForever is how long containers sleep by default, in seconds.
const sleepForever = "2147483647"

func (i Image) validate() error {
	var errs []error
	if i.Name == "" {
		errs = append(errs, errors.New("name: empty"))
	}
	if i.NoBusybox && len(i.Layers) == 0 {
		errs = append(errs, errors.New("layers: none"))
	}
	for _, l := range i.Layers {
		errs = append(errs, l.validate())
	}
	return errors.Join(errs...)
}

// names returns all references of the image.
func (i Image) names() []string { return append([]string{i.Name}, i.Tags...) }

// Build returns the image, for a registry to serve. Its bytes are generated when they
// are read.
func (i Image) Build() (v1.Image, error) { return i.build() }

// build returns the image; its bytes are generated when they are read.
func (i Image) build() (v1.Image, error) {
	if err := i.validate(); err != nil {
		return nil, err
	}
	var layers []v1.Layer
	if !i.NoBusybox {
		base, err := newStream("busybox", writeBusybox)
		if err != nil {
			return nil, err
		}
		layers = append(layers, base)
	}
	for _, l := range i.Layers {
		layer, err := newStream(l, l.write)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	cmd := i.Cmd
	if len(cmd) == 0 && len(i.Entrypoint) == 0 {
		cmd = []string{"/bin/sleep", sleepForever}
	}
	return assemble(layers, v1.Config{
		Entrypoint: i.Entrypoint, Cmd: cmd, Labels: i.Labels,
		Env: []string{"PATH=/bin"}, WorkingDir: "/",
	})
}

func assemble(layers []v1.Layer, config v1.Config) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, Config: config,
		RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, fmt.Errorf("write image config: %w", err)
	}
	if img, err = mutate.AppendLayers(img, layers...); err != nil {
		return nil, fmt.Errorf("append layers: %w", err)
	}
	return img, nil
}

// archivable is an image that can be imported: an Image, or the sandbox image.
type archivable interface {
	names() []string
	build() (v1.Image, error)
}

type pause struct{}

func (pause) names() []string { return []string{SandboxImage} }

func (pause) build() (v1.Image, error) {
	layer, err := newStream("pause", func(w *tar.Writer) error { return writePause(w) })
	if err != nil {
		return nil, err
	}
	return assemble([]v1.Layer{layer}, v1.Config{Entrypoint: []string{"/pause/busybox", "sleep", sleepForever}})
}
