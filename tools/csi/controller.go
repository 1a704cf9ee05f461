package csi

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// GetPluginInfo returns the driver's name.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.config.Name, VendorVersion: "1"}, nil
}

// GetPluginCapabilities reports a controller service.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{{
		Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: csi.PluginCapability_Service_CONTROLLER_SERVICE}},
	}}}, nil
}

// Probe reports that the driver is ready.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

// ControllerGetCapabilities reports LIST_VOLUMES and, unless NoDelete, CREATE_DELETE_VOLUME.
func (d *Driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	can := []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_LIST_VOLUMES}
	if d.config.NoDelete {
		can = can[1:]
	}
	resp := &csi.ControllerGetCapabilitiesResponse{}
	for _, t := range can {
		resp.Capabilities = append(resp.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return resp, nil
}

// CreateVolume makes a directory. It is idempotent for the same name and capacity.
func (d *Driver) CreateVolume(_ context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	name, capacity := req.GetName(), req.GetCapacityRange().GetRequiredBytes()
	switch {
	case name == "" || len(prefix+name) > 255 || name != filepath.Base(name):
		return nil, missing("a name that a directory can have")
	case len(req.GetVolumeCapabilities()) == 0:
		return nil, missing("volume_capabilities")
	case req.GetVolumeContentSource() != nil:
		return nil, absent("the source", req.GetVolumeContentSource().String())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	id := prefix + name
	if v, there := d.volumes[id]; there && v.capacity != capacity {
		return nil, status.Error(codes.AlreadyExists, fmt.Sprintf("%q exists with %d bytes", name, v.capacity))
	} else if !there {
		if _, err := d.make(name, capacity); err != nil {
			return nil, err
		}
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: id, CapacityBytes: capacity}}, nil
}

// DeleteVolume removes the directory and its contents.
func (d *Driver) DeleteVolume(_ context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	id := req.GetVolumeId()
	switch {
	case id == "":
		return nil, missing("volume_id")
	case d.config.Token != "" && req.GetSecrets()["token"] != d.config.Token:
		return nil, status.Error(codes.Unauthenticated, "the secret token is not the right one")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, there := d.volumes[id]; there {
		if err := os.RemoveAll(d.path(id)); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		delete(d.volumes, id)
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// ValidateVolumeCapabilities confirms all capabilities of an existing volume.
func (d *Driver) ValidateVolumeCapabilities(_ context.Context, req *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	switch {
	case req.GetVolumeId() == "":
		return nil, missing("volume_id")
	case len(req.GetVolumeCapabilities()) == 0:
		return nil, missing("volume_capabilities")
	case !d.Has(req.GetVolumeId()):
		return nil, absent("volume", req.GetVolumeId())
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: req.GetVolumeCapabilities()},
	}, nil
}

// ListVolumes lists volumes by ID. A token is the number of volumes already listed.
func (d *Driver) ListVolumes(_ context.Context, req *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	from := 0
	if token := req.GetStartingToken(); token != "" {
		var err error
		if from, err = strconv.Atoi(token); err != nil || from < 0 || from > len(d.volumes) {
			return nil, status.Error(codes.Aborted, "a starting_token that nobody gave out")
		}
	}
	ids := slices.Sorted(maps.Keys(d.volumes))[from:]
	resp := &csi.ListVolumesResponse{}
	if most := int(req.GetMaxEntries()); most > 0 && most < len(ids) {
		ids, resp.NextToken = ids[:most], strconv.Itoa(from+most)
	}
	for _, id := range ids {
		resp.Entries = append(resp.Entries, &csi.ListVolumesResponse_Entry{Volume: &csi.Volume{VolumeId: id, CapacityBytes: d.volumes[id].capacity}})
	}
	return resp, nil
}
