package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/ebb-agent/ebb/tools/node"
)

const (
	mib = 1 << 20

	diskBytes = 2048 * mib
	appImage  = "node.test/app:1"

	// Nobody uses these: they are what the disk is full of.
	bigOnes  = 4
	bigBytes = 64 * mib

	// These are used while the agent is replaced.
	loadOnes = 4

	repository = "ghcr.io/ebb-agent/ebb"
	nextImage  = repository + ":next"
)

func big(i int) string       { return fmt.Sprintf("node.test/big-%d:1", i) }
func loadImage(i int) string { return fmt.Sprintf("node.test/load-%d:1", i) }

// writeImages makes what a registry would serve besides ebb.
func writeImages(dir string) error {
	images := []node.Image{{Name: appImage, Layers: []node.Layer{{Seed: "app", Bytes: mib}}}}
	for i := range bigOnes {
		seed := fmt.Sprintf("big-%d", i)
		images = append(images, node.Image{Name: big(i), NoBusybox: true, Layers: []node.Layer{{Seed: seed, Bytes: bigBytes}}})
	}
	if err := writeArchive(filepath.Join(dir, "images.tar"), true, images); err != nil {
		return err
	}
	images = nil
	for i := range loadOnes {
		seed := fmt.Sprintf("load-%d", i)
		images = append(images, node.Image{Name: loadImage(i), Layers: []node.Layer{{Seed: seed, Bytes: mib}}})
	}
	return writeArchive(filepath.Join(dir, "load.tar"), false, images)
}

func writeArchive(path string, sandbox bool, images []node.Image) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	if err := errors.Join(node.WriteArchive(f, sandbox, images...), f.Close()); err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	return nil
}

// nextVersion makes another version of ebb's image, which differs in a label: for the
// runtime it is another image.
func nextVersion(from, dir, to string) error {
	image, err := openImage(from, filepath.Join(dir, "unpacked"))
	if err != nil {
		return fmt.Errorf("open %s (make image): %w", from, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return fmt.Errorf("make next version: %w", err)
	}
	config = config.DeepCopy()
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	config.Config.Labels["org.opencontainers.image.version"] = "next"
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return fmt.Errorf("make next version: %w", err)
	}
	if err := tarball.WriteToFile(to, name.MustParseReference(nextImage), image); err != nil {
		return fmt.Errorf("make next version: %w", err)
	}
	return nil
}

// openImage reads the image for this machine from an archive of an OCI layout.
func openImage(archive, dir string) (v1.Image, error) {
	if err := untar(archive, dir); err != nil {
		return nil, err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	return firstImage(index)
}

// firstImage finds the image of the first platform, which is amd64; an entry can be
// an index again.
func firstImage(index v1.ImageIndex) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) == 0 {
		return nil, errors.New("no image in it")
	}
	first := manifest.Manifests[0]
	if first.MediaType.IsImage() {
		return index.Image(first.Digest)
	}
	inner, err := index.ImageIndex(first.Digest)
	if err != nil {
		return nil, err
	}
	return firstImage(inner)
}

// untar unpacks an archive of plain files.
func untar(archive, dir string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg || strings.Contains(h.Name, "..") {
			continue
		}
		path := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		out, err := os.Create(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r)
		if err := errors.Join(err, out.Close()); err != nil {
			return err
		}
	}
}
