package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// PodSpec describes a pod that can run here: in the host's network, with images
// that are on the node.
type PodSpec struct {
	Namespace string // default "default"
	Name      string
	NodeName  string // binds the pod, without a scheduler
	Labels    map[string]string

	Image         string
	Command       []string // default: the image's
	RestartPolicy string   // default "Always"
	PullPolicy    string   // default "IfNotPresent"
}

// Manifest returns the pod as an object of the API: for a POST, or for a static
// pod. More can be put into it.
func (s PodSpec) Manifest() map[string]any {
	container := map[string]any{
		"name": "main", "image": s.Image, "imagePullPolicy": or(s.PullPolicy, "IfNotPresent"),
	}
	if len(s.Command) > 0 {
		container["command"] = s.Command
	}
	spec := map[string]any{
		"hostNetwork":   true,
		"restartPolicy": or(s.RestartPolicy, "Always"),
		"containers":    []any{container},
		// busybox as process 1 does not heed SIGTERM; nobody waits for it.
		"terminationGracePeriodSeconds": 0,
		// Also on a node that counts as full or as not ready.
		"tolerations": []any{map[string]any{"operator": "Exists"}},
	}
	if s.NodeName != "" {
		spec["nodeName"] = s.NodeName
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": s.Name, "namespace": or(s.Namespace, "default"), "labels": s.Labels},
		"spec":     spec,
	}
}

func or(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// AddStaticPod gives the kubelet a pod of its own, or another version of it. Its
// name gets the node's name at its end.
func (k *Kubelet) AddStaticPod(name string, manifest map[string]any) error {
	data, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return fmt.Errorf("add static pod %s: %w", name, err)
	}
	// By rename, so that the kubelet never reads half of it.
	tmp := k.path(name + ".tmp")
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fmt.Errorf("add static pod %s: %w", name, err)
	}
	if err := os.Rename(tmp, k.manifest(name)); err != nil {
		return fmt.Errorf("add static pod %s: %w", name, err)
	}
	return nil
}

// RemoveStaticPod takes a pod away, which the kubelet then ends.
func (k *Kubelet) RemoveStaticPod(name string) error {
	if err := os.Remove(k.manifest(name)); err != nil {
		return fmt.Errorf("remove static pod %s: %w", name, err)
	}
	return nil
}

func (k *Kubelet) manifest(name string) string { return filepath.Join(k.ManifestDir(), name+".json") }

// PodStatus is a pod as the kubelet, or the API server, tells of it.
type PodStatus struct {
	Namespace, Name, UID string
	Phase                string // "Pending", "Running", "Succeeded", "Failed"
	Ready                bool
	Message              string // why it does not run
}

// pod has the fields of a pod that make a PodStatus.
type pod struct {
	Metadata struct{ Namespace, Name, UID string }
	Status   struct {
		Phase, Message    string
		Conditions        []struct{ Type, Status string }
		ContainerStatuses []struct {
			State struct {
				Waiting    struct{ Reason, Message string }
				Terminated struct {
					Reason, Message string
					ExitCode        int
				}
			}
		}
	}
}

func (p pod) status() PodStatus {
	s := PodStatus{
		Namespace: p.Metadata.Namespace, Name: p.Metadata.Name, UID: p.Metadata.UID,
		Phase: p.Status.Phase, Message: p.Status.Message,
	}
	for _, c := range p.Status.Conditions {
		s.Ready = s.Ready || c.Type == "Ready" && c.Status == "True"
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w.Reason != "" {
			s.Message = w.Reason + ": " + w.Message
		}
		if t := c.State.Terminated; t.ExitCode != 0 {
			s.Message = fmt.Sprintf("exit code %d: %s: %s", t.ExitCode, t.Reason, t.Message)
		}
	}
	return s
}

// Pods returns the pods that the kubelet has, from its /pods.
func (k *Kubelet) Pods(ctx context.Context) ([]PodStatus, error) {
	var list struct{ Items []pod }
	if err := Request(ctx, k.admin, http.MethodGet, k.url+"/pods", nil, &list); err != nil {
		return nil, fmt.Errorf("list pods of kubelet: %w", err)
	}
	pods := make([]PodStatus, len(list.Items))
	for i, p := range list.Items {
		pods[i] = p.status()
	}
	return pods, nil
}

// WaitPod returns once the kubelet tells what is wanted of a pod; gone is true,
// and the status empty, while it has no such pod. A static pod's name ends with
// the node's.
func (k *Kubelet) WaitPod(ctx context.Context, namespace, name string, want func(s PodStatus, gone bool) bool) error {
	var last string
	err := poll(ctx, func() (bool, error) {
		pods, err := k.Pods(ctx)
		if err != nil {
			last = err.Error()
			return false, nil
		}
		for _, p := range pods {
			if p.Namespace == namespace && p.Name == name {
				last = fmt.Sprintf("%+v", p)
				return want(p, false), nil
			}
		}
		last = "no such pod"
		return want(PodStatus{}, true), nil
	})
	if err != nil {
		return fmt.Errorf("wait for pod %s/%s: %w; last seen: %s%s", namespace, name, err, last, logTail(k.LogFile()))
	}
	return nil
}

// IsRunning holds for a pod that runs and is ready. For WaitPod, as are the next.
func IsRunning(s PodStatus, _ bool) bool { return s.Phase == "Running" && s.Ready }

// IsGone holds for a pod that the kubelet does not have any more.
func IsGone(_ PodStatus, gone bool) bool { return gone }

// HasEnded holds for a pod that ran to its end, well or not.
func HasEnded(s PodStatus, _ bool) bool { return s.Phase == "Succeeded" || s.Phase == "Failed" }
