package cri

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	// callTimeout bounds every call except image removal and [Client.Do]. Runtimes answer lists
	// from memory.
	callTimeout = 15 * time.Second
	// removeTimeout is longer: containerd collects the image's garbage before
	// it answers, and a large image on a slow disk takes its time.
	removeTimeout = 2 * time.Minute

	// maxMessage bounds an answer. A thousand images with twenty names each
	// stay well below the usual 4 MiB, but nothing guarantees it.
	maxMessage = 32 << 20
)

// Client calls one CRI runtime.
type Client struct {
	images  runtimeapi.ImageServiceClient
	runtime runtimeapi.RuntimeServiceClient
}

// New wraps a connection, which the caller has to close.
func New(conn grpc.ClientConnInterface) *Client {
	return &Client{
		images:  runtimeapi.NewImageServiceClient(conn),
		runtime: runtimeapi.NewRuntimeServiceClient(conn),
	}
}

// Image is an image as the CRI lists it.
type Image struct {
	ID     string // "sha256:…", the digest of the image's config
	Names  []string
	Pinned bool
	Bytes  uint64 // nominal: whether compressed depends on the runtime
}

// Container is a container with the image that the CRI made it from, and its state.
type Container struct {
	ID      string
	ImageID string
	State   container.State
}

// Version returns the runtime's name and version. It is the cheapest call that
// proves that a CRI service answers.
func (c *Client) Version(ctx context.Context) (name, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.runtime.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return "", "", translate("CRI version", err)
	}
	return resp.GetRuntimeName(), resp.GetRuntimeVersion(), nil
}

// ImageFsInfo returns the directories in which the runtime stores its images, and the writable
// layers of containers. The latter is "" for a runtime that does not report it (containerd 1.6).
func (c *Client) ImageFsInfo(ctx context.Context) (images, containers string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return "", "", translate("image filesystem info", err)
	}
	images = firstMountpoint(resp.GetImageFilesystems())
	if images == "" {
		return "", "", fmt.Errorf("image filesystem info: the runtime names no directory")
	}
	return images, firstMountpoint(resp.GetContainerFilesystems()), nil
}

// firstMountpoint returns the first mount point, that of the default snapshotter. The kubelet takes
// the first one, too.
func firstMountpoint(list []*runtimeapi.FilesystemUsage) string {
	for _, fs := range list {
		if path := fs.GetFsId().GetMountpoint(); path != "" {
			return path
		}
	}
	return ""
}

// ListImages returns every image. Entries without a full image ID are left out: there is no safe
// way to address them.
func (c *Client) ListImages(ctx context.Context) ([]Image, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.images.ListImages(ctx, &runtimeapi.ListImagesRequest{},
		grpc.MaxCallRecvMsgSize(maxMessage))
	if err != nil {
		return nil, translate("list images", err)
	}
	images := make([]Image, 0, len(resp.GetImages()))
	for _, i := range resp.GetImages() {
		if ValidID(i.GetId()) {
			images = append(images, fromAPI(i))
		}
	}
	return images, nil
}

// ImageStatus looks one image up; inventory.ErrNotFound if there is none.
func (c *Client) ImageStatus(ctx context.Context, id string) (Image, error) {
	if !ValidID(id) {
		return Image{}, fmt.Errorf("image status: %q: %w", id, errBadID)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{
		Image: &runtimeapi.ImageSpec{Image: id},
	})
	if err != nil {
		return Image{}, translate("image status", err)
	}
	// A missing image is an empty answer here, not an error.
	if resp.GetImage() == nil || resp.GetImage().GetId() != id {
		return Image{}, fmt.Errorf("image status: %s: %w", id, inventory.ErrNotFound)
	}
	return fromAPI(resp.GetImage()), nil
}

// RemoveImage removes the image and every name of it. An image that is not
// there counts as removed.
func (c *Client) RemoveImage(ctx context.Context, id string) error {
	if !ValidID(id) {
		return fmt.Errorf("remove image: %q: %w", id, errBadID)
	}
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	_, err := c.images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{
		Image: &runtimeapi.ImageSpec{Image: id},
	})
	if err = translate("remove image "+id, err); isNotFound(err) {
		return nil
	}
	return err
}

// ListContainers returns the CRI's containers in any state. Sandboxes are not
// among them.
func (c *Client) ListContainers(ctx context.Context) ([]Container, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{},
		grpc.MaxCallRecvMsgSize(maxMessage))
	if err != nil {
		return nil, translate("list CRI containers", err)
	}
	containers := make([]Container, 0, len(resp.GetContainers()))
	for _, ct := range resp.GetContainers() {
		// image_id came with Kubernetes 1.29; on containerd both are the ID.
		id := ct.GetImageId()
		if id == "" {
			id = ct.GetImageRef()
		}
		containers = append(containers, Container{ID: ct.GetId(), ImageID: id, State: stateFromAPI(ct.GetState())})
	}
	return containers, nil
}

// SandboxImage returns the name of the image that pod sandboxes run, or "" if the runtime does not
// report it.
func (c *Client) SandboxImage(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.runtime.Status(ctx, &runtimeapi.StatusRequest{Verbose: true})
	if err != nil {
		return "", translate("runtime status", err)
	}
	return sandboxImage(resp.GetInfo()["config"]), nil
}

func fromAPI(i *runtimeapi.Image) Image {
	names := make([]string, 0, len(i.GetRepoTags())+len(i.GetRepoDigests()))
	names = append(names, i.GetRepoTags()...)
	names = append(names, i.GetRepoDigests()...)
	return Image{ID: i.GetId(), Names: names, Pinned: i.GetPinned(), Bytes: i.GetSize()}
}
