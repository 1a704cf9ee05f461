package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/ebb-agent/ebb/runtime/cri"
)

// maxDocument bounds an index, manifest or config. Registries refuse manifests
// above 4 MiB; a config has a few kilobytes.
const maxDocument = 8 << 20

// maxLayers bounds an image's layers. overlayfs takes 500 lower directories.
const maxLayers = 4096

var errTooLarge = errors.New("document too large")

// resolve finds the image ID and the top layer's chain ID behind a target. They never change, so
// they are cached. Content that is missing, malformed or for another platform gives the zero value,
// and is read again the next time.
func (r *Runtime) resolve(ctx context.Context, target ocispec.Descriptor) imageContent {
	digest := target.Digest.String()
	if c, ok := r.cache.content(digest); ok {
		return c
	}
	c, err := resolveContent(ctx, boundedProvider{r.client.ContentStore()}, target)
	if err != nil {
		// Incomplete images are normal: a pull in progress, or the other platforms of an index.
		r.log.DebugContext(ctx, "image cannot be resolved", "target", digest, "reason", err)
		return imageContent{}
	}
	r.cache.putContent(digest, c)
	return c
}

func resolveContent(ctx context.Context, provider content.Provider, target ocispec.Descriptor) (imageContent, error) {
	// The CRI chooses the manifest by the same function and platform.
	manifest, err := images.Manifest(ctx, provider, target, platforms.Default())
	if err != nil {
		return imageContent{}, fmt.Errorf("read manifest: %w", err)
	}
	config, err := content.ReadBlob(ctx, provider, manifest.Config)
	if err != nil {
		return imageContent{}, fmt.Errorf("read config: %w", err)
	}
	c := imageContent{id: manifest.Config.Digest.String()}
	if !cri.ValidID(c.id) {
		return imageContent{}, fmt.Errorf("read config: digest %.80q: %w", c.id, errdefs.ErrInvalidArgument)
	}
	c.chain, err = chainOf(config)
	return c, err
}

// chainOf computes the top layer's chain ID from an image config.
func chainOf(config []byte) (string, error) {
	var c struct {
		RootFS ocispec.RootFS `json:"rootfs"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return "", fmt.Errorf("parse config: %w", err)
	}
	if len(c.RootFS.DiffIDs) > maxLayers {
		return "", fmt.Errorf("parse config: %d layers: %w", len(c.RootFS.DiffIDs), errTooLarge)
	}
	if len(c.RootFS.DiffIDs) == 0 {
		return "", nil
	}
	for _, d := range c.RootFS.DiffIDs {
		if err := d.Validate(); err != nil {
			return "", fmt.Errorf("parse config: layer: %w", err)
		}
	}
	return identity.ChainID(c.RootFS.DiffIDs).String(), nil
}

// boundedProvider refuses documents that are too large to be read into memory.
type boundedProvider struct{ content.Provider }

func (p boundedProvider) ReaderAt(ctx context.Context, desc ocispec.Descriptor) (content.ReaderAt, error) {
	at, err := p.Provider.ReaderAt(ctx, desc)
	if err != nil {
		return nil, err
	}
	if at.Size() > maxDocument {
		return nil, errors.Join(fmt.Errorf("%s: %d bytes: %w", desc.Digest, at.Size(), errTooLarge), at.Close())
	}
	return at, nil
}
