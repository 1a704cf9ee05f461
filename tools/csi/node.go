package csi

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NodeGetCapabilities reports no capability beyond publishing.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodeGetInfo returns the ID of the only node.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: "here"}, nil
}

// NodePublishVolume makes the target a symbolic link to the directory.
func (d *Driver) NodePublishVolume(_ context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	id, target := req.GetVolumeId(), req.GetTargetPath()
	switch {
	case id == "":
		return nil, missing("volume_id")
	case target == "":
		return nil, missing("target_path")
	case req.GetVolumeCapability() == nil:
		return nil, missing("volume_capability")
	case !d.Has(id):
		return nil, absent("volume", id)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.published[target] == id {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := os.Symlink(d.path(id), target); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	d.published[target] = id
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume removes the link.
func (d *Driver) NodeUnpublishVolume(_ context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	target := req.GetTargetPath()
	switch {
	case req.GetVolumeId() == "":
		return nil, missing("volume_id")
	case target == "":
		return nil, missing("target_path")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	delete(d.published, target)
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
