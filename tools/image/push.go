package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push pushes the result of [Make] in a directory to the registry in its name, with the
// credentials of docker login or podman login. It returns the name with the digest, by which
// nodes pull exactly this image.
func Push(ctx context.Context, output string) (pinned string, err error) {
	dir, err := os.MkdirTemp("", "ebb-push-")
	if err != nil {
		return "", fmt.Errorf("push image: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := unpack(filepath.Join(output, ArchiveFile), dir); err != nil {
		return "", fmt.Errorf("push image: %w", err)
	}
	index, to, err := onlyIndex(dir)
	if err != nil {
		return "", fmt.Errorf("push image: %s: %w", ArchiveFile, err)
	}
	if err := remote.WriteIndex(to, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", fmt.Errorf("push image: %s: %w", to, err)
	}
	digest, err := index.Digest()
	if err != nil {
		return "", fmt.Errorf("push image: %w", err)
	}
	return to.Name() + "@" + digest.String(), nil
}

// onlyIndex returns the only index in an unpacked archive, and its name.
func onlyIndex(dir string) (v1.ImageIndex, name.Reference, error) {
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, nil, err
	}
	manifest, err := top.IndexManifest()
	if err != nil {
		return nil, nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, nil, fmt.Errorf("it has %d images, not one", len(manifest.Manifests))
	}
	to, err := name.NewTag(manifest.Manifests[0].Annotations[images.AnnotationImageName], name.StrictValidation)
	if err != nil {
		return nil, nil, err
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	return index, to, err
}

// unpack writes the files of an archive into dir, and nowhere else.
func unpack(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for archive := tar.NewReader(f); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = errors.Join(root.MkdirAll(path.Dir(h.Name), 0o700), copyTo(root, h.Name, archive))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
}

func copyTo(root *os.Root, name string, from io.Reader) error {
	f, err := root.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
