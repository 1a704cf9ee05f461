// Package cri implements the few calls of the Kubernetes Container Runtime Interface (v1)
// that ebb needs. For images: which there are, by ID, what the runtime pins, where they are
// stored, and removal. For containers and sandboxes: lists, status, events, stop and removal.
//
// It is a thin client over a connection that belongs to the caller. It keeps no
// state, caches nothing, and bounds every call but [Client.Events] in time and in size.
// gRPC codes end here: errors carry [inventory.ErrNotFound], [inventory.ErrNoSpace],
// [inventory.ErrUnavailable] or [ErrUnimplemented].
//
// An image is only ever named by its full ID ("sha256:" and 64 hex digits).
// The CRI would accept a tag or a shortened ID as well, and remove whatever that
// means at the moment; [Client.RemoveImage] refuses them.
//
// Sources: k8s.io/cri-api runtime/v1 api.proto; the verbose Status of
// containerd 1.6, whose info["config"] is the CRI plugin's configuration with a
// field sandboxImage. containerd 2 moved that name elsewhere and pins the image
// instead.
package cri
