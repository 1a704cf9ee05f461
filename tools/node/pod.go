package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PodSpec describes a pod run through CRI. It gets the labels that the kubelet sets on
// its pods.
type PodSpec struct {
	Namespace   string // Kubernetes namespace; default "default"
	Name        string
	UID         string // default NAMESPACE-NAME
	Labels      map[string]string
	Annotations map[string]string
	Attempt     uint32 // of the sandbox
	Containers  []PodContainer
}

// PodContainer is one container of a pod.
type PodContainer struct {
	Name    string
	Image   string   // a reference or an ID
	Command []string // default: the image's
	Args    []string
	Mounts  []Mount
	Attempt uint32 // the kubelet counts restarts here
}

// Pod is a sandbox with its containers.
type Pod struct {
	node       *Node
	ID         string            // the sandbox's
	Containers map[string]string // name → container ID
}

// RunPod starts a sandbox in the host's network, which needs no CNI, and then its
// containers, one after the other. If a container does not start, the pod is removed.
func (n *Node) RunPod(ctx context.Context, spec PodSpec) (*Pod, error) {
	spec.Namespace = cmp.Or(spec.Namespace, "default")
	spec.UID = cmp.Or(spec.UID, spec.Namespace+"-"+spec.Name)
	config := n.sandboxConfig(spec)
	if err := os.MkdirAll(config.LogDirectory, 0o711); err != nil {
		return nil, fmt.Errorf("run pod %s: %w", spec.Name, err)
	}
	sandbox, err := n.pods.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		return nil, fmt.Errorf("run pod %s: %w", spec.Name, err)
	}
	pod := &Pod{node: n, ID: sandbox.PodSandboxId, Containers: make(map[string]string)}
	for _, c := range spec.Containers {
		if err := pod.run(ctx, config, c); err != nil {
			err = fmt.Errorf("run pod %s: container %s: %w", spec.Name, c.Name, err)
			return nil, errors.Join(err, pod.Remove(context.WithoutCancel(ctx)))
		}
	}
	return pod, nil
}

func (n *Node) sandboxConfig(spec PodSpec) *runtimeapi.PodSandboxConfig {
	labels := map[string]string{
		"io.kubernetes.pod.name":      spec.Name,
		"io.kubernetes.pod.namespace": spec.Namespace,
		"io.kubernetes.pod.uid":       spec.UID,
	}
	for k, v := range spec.Labels {
		labels[k] = v
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata:    &runtimeapi.PodSandboxMetadata{Name: spec.Name, Namespace: spec.Namespace, Uid: spec.UID, Attempt: spec.Attempt},
		Labels:      labels,
		Annotations: spec.Annotations,
		// The kubelet uses the same names.
		LogDirectory: filepath.Join(n.at.logs(), "pods", spec.Namespace+"_"+spec.Name+"_"+spec.UID),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: path.Join(n.at.cgroup(), "kubepods", "pod"+spec.UID),
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: hostNetwork(),
			},
		},
	}
}

func hostNetwork() *runtimeapi.NamespaceOption {
	return &runtimeapi.NamespaceOption{
		Network: runtimeapi.NamespaceMode_NODE,
		Pid:     runtimeapi.NamespaceMode_CONTAINER,
	}
}

// run creates and starts one container in the sandbox.
func (p *Pod) run(ctx context.Context, sandbox *runtimeapi.PodSandboxConfig, c PodContainer) error {
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: c.Attempt},
		Image:    &runtimeapi.ImageSpec{Image: c.Image},
		Command:  c.Command,
		Args:     c.Args,
		LogPath:  filepath.Join(c.Name, fmt.Sprintf("%d.log", c.Attempt)), // as the kubelet names it
		Labels:   map[string]string{"io.kubernetes.container.name": c.Name},
		Linux: &runtimeapi.LinuxContainerConfig{
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{NamespaceOptions: hostNetwork()},
		},
	}
	for k, v := range sandbox.Labels {
		config.Labels[k] = v
	}
	for _, m := range c.Mounts {
		config.Mounts = append(config.Mounts, &runtimeapi.Mount{
			HostPath: m.Source, ContainerPath: m.Target, Readonly: m.ReadOnly,
		})
	}
	if err := os.MkdirAll(filepath.Join(sandbox.LogDirectory, c.Name), 0o755); err != nil {
		return err
	}
	created, err := p.node.pods.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: p.ID, Config: config, SandboxConfig: sandbox,
	})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	p.Containers[c.Name] = created.ContainerId
	_, err = p.node.pods.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: created.ContainerId})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return nil
}

// Status returns CRI's status of one container of the pod.
func (p *Pod) Status(ctx context.Context, container string) (*runtimeapi.ContainerStatus, error) {
	r, err := p.node.pods.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: p.Containers[container]})
	if err != nil {
		return nil, fmt.Errorf("status of container %s: %w", container, err)
	}
	return r.Status, nil
}

// Stop ends the pod's containers at once, and its sandbox. All remain, dead, as the
// kubelet leaves them for collection.
func (p *Pod) Stop(ctx context.Context) error {
	for name, id := range p.Containers {
		if err := p.stopContainer(ctx, id); err != nil {
			return fmt.Errorf("stop container %s: %w", name, err)
		}
	}
	_, err := p.node.pods.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.ID})
	if err := unlessGone(err); err != nil {
		return fmt.Errorf("stop pod: %w", err)
	}
	return nil
}

// stopContainer kills a container without a grace period. containerd 1.6 sometimes
// loses its shim's connection while the shim dies ("ttrpc: closed"). The kubelet
// retries then, and so does stopContainer.
func (p *Pod) stopContainer(ctx context.Context, id string) error {
	return persist(ctx, "ttrpc: closed", func() error {
		_, err := p.node.pods.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id})
		return unlessGone(err)
	})
}

// persist repeats a call every 100 ms, as a kubelet does, while its error contains
// notYet.
func persist(ctx context.Context, notYet string, call func() error) (err error) {
	_ = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		err = call()
		return err == nil || !strings.Contains(err.Error(), notYet), nil
	})
	return err
}

// Remove stops the pod and removes it with its containers. A missing pod is no error.
func (p *Pod) Remove(ctx context.Context) error {
	if err := p.Stop(ctx); err != nil {
		return err
	}
	// A stopped container can count as running until containerd has handled its end.
	if err := persist(ctx, "container is still running", func() error {
		_, err := p.node.pods.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.ID})
		return unlessGone(err)
	}); err != nil {
		return fmt.Errorf("remove pod: %w", err)
	}
	return nil
}

// unlessGone drops NotFound errors: containerd 1.6 returns them for missing objects,
// later versions do not.
func unlessGone(err error) error {
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}
