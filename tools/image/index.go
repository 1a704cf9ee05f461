package image

import (
	"fmt"
	"strings"

	"github.com/containerd/containerd/v2/core/images"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// newImage returns the image of one architecture.
func newImage(f facts, arch string, content v1.Layer) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: f.created},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			// No entrypoint: the command of a manifest, or the arguments after the
			// image's name on a command line, replace Cmd as a whole.
			Cmd:  []string{"/usr/bin/ebb"},
			Env:  []string{"PATH=/usr/bin"},
			User: fmt.Sprintf("%d:%d", Nonroot, Nonroot), WorkingDir: "/",
			Labels: f.labels(),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("write image config: %w", err)
	}
	img, err = mutate.Append(img, mutate.Addendum{
		Layer:   content,
		History: v1.History{Created: v1.Time{Time: f.created}, CreatedBy: "ebb " + f.reported},
	})
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	return mutate.Annotations(img, f.labels()).(v1.Image), nil
}

// newIndex returns the index of images, which are keyed by architecture, in the order
// of Architectures.
func newIndex(f facts, images map[string]v1.Image) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range Architectures {
		if images[arch] == nil {
			continue
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        images[arch],
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return mutate.Annotations(index, f.labels()).(v1.ImageIndex)
}

// named wraps an index, under a name, as the top index of an archive.
func named(index v1.ImageIndex, name string) v1.ImageIndex {
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: index,
		Descriptor: v1.Descriptor{Annotations: map[string]string{
			// containerd reads the full name from its own annotation; the OCI one is
			// only the tag.
			images.AnnotationImageName: name,
			ocispec.AnnotationRefName:  name[strings.LastIndex(name, ":")+1:],
		}},
	})
}
