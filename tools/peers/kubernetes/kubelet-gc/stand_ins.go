package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// The stand-ins embed a nil interface: an unexpected call of the collector panics
// instead of passing unseen.

// containerRuntime is a CRI runtime that holds a world.
type containerRuntime struct {
	internalapi.RuntimeService
	*world
}

func (r containerRuntime) Version(context.Context, string) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "world", RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1"}, nil
}

func (r containerRuntime) ListContainers(context.Context, *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	return slices.Clone(r.containers), nil
}

func (r containerRuntime) ListPodSandbox(context.Context, *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return slices.Clone(r.sandboxes), nil
}

func (r containerRuntime) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	i := slices.IndexFunc(r.containers, func(c *runtimeapi.Container) bool { return c.Id == id })
	if i < 0 {
		return nil, fmt.Errorf("container %s: not found", id)
	}
	c := r.containers[i]
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{
		Id: c.Id, Metadata: c.Metadata, State: c.State, CreatedAt: c.CreatedAt, Labels: c.Labels,
	}}, nil
}

func (r containerRuntime) StopContainer(_ context.Context, id string, _ int64) error {
	r.calls = append(r.calls, "stop container "+id)
	for _, c := range r.containers {
		if c.Id == id {
			c.State = runtimeapi.ContainerState_CONTAINER_EXITED
		}
	}
	return nil
}

func (r containerRuntime) RemoveContainer(_ context.Context, id string) error {
	r.calls = append(r.calls, "remove container "+id)
	r.containers = slices.DeleteFunc(r.containers, func(c *runtimeapi.Container) bool { return c.Id == id })
	return nil
}

func (r containerRuntime) StopPodSandbox(_ context.Context, id string) error {
	r.calls = append(r.calls, "stop sandbox "+id)
	return nil
}

// RemovePodSandbox also removes the sandbox's containers, as every runtime does.
func (r containerRuntime) RemovePodSandbox(_ context.Context, id string) error {
	r.calls = append(r.calls, "remove sandbox "+id)
	r.sandboxes = slices.DeleteFunc(r.sandboxes, func(s *runtimeapi.PodSandbox) bool { return s.Id == id })
	r.containers = slices.DeleteFunc(r.containers, func(c *runtimeapi.Container) bool { return c.PodSandboxId == id })
	return nil
}

// imageService implements no call.
type imageService struct {
	internalapi.ImageManagerService
}

// fileSystem holds only the directories of a world's logs: the collector must not see
// this machine's.
type fileSystem struct {
	kubecontainer.OSInterface
	*world
}

const podLogs = "/var/log/pods"

func (f fileSystem) ReadDir(name string) ([]os.DirEntry, error) {
	if name != podLogs {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	var entries []os.DirEntry
	for _, name := range f.logs {
		entries = append(entries, logDirectory(name))
	}
	return entries, nil
}

func (f fileSystem) RemoveAll(path string) error {
	name := strings.TrimPrefix(path, podLogs+"/")
	f.calls = append(f.calls, "remove logs "+name)
	f.logs = slices.DeleteFunc(slices.Clone(f.logs), func(l string) bool { return l == name })
	return nil
}

// Remove is called for the links to the logs of containers.
func (f fileSystem) Remove(path string) error {
	if filepath.Dir(path) != "/var/log/containers" {
		return fmt.Errorf("remove %s: it is no link to a log", path)
	}
	return &fs.PathError{Op: "remove", Path: path, Err: fs.ErrNotExist}
}

func (f fileSystem) Glob(string) ([]string, error) { return nil, nil }

type logDirectory string

func (d logDirectory) Name() string               { return string(d) }
func (d logDirectory) IsDir() bool                { return true }
func (d logDirectory) Type() fs.FileMode          { return fs.ModeDir }
func (d logDirectory) Info() (fs.FileInfo, error) { return nil, fs.ErrNotExist }
