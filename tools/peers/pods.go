package peers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/process"
)

// PodSpec describes a pod that can run here: in the host's network, with images that
// the node has.
type PodSpec struct {
	Namespace string // default "default"
	Name      string
	NodeName  string // binds the pod, without a scheduler
	Labels    map[string]string

	Image         string
	Command       []string // default: the image's
	RestartPolicy string   // default "Always"
	PullPolicy    string   // default "IfNotPresent"

	// Critical pods start on a node under pressure, too, as static pods do.
	Critical bool
}

// Manifest returns the pod as an API object: for a POST, or for a static pod. The
// caller may add fields.
func (s PodSpec) Manifest() map[string]any {
	container := map[string]any{
		"name": "main", "image": s.Image, "imagePullPolicy": cmp.Or(s.PullPolicy, "IfNotPresent"),
	}
	if len(s.Command) > 0 {
		container["command"] = s.Command
	}
	spec := map[string]any{
		"hostNetwork":   true,
		"restartPolicy": cmp.Or(s.RestartPolicy, "Always"),
		"containers":    []any{container},
		// busybox as process 1 ignores SIGTERM; a grace period would only be waited
		// for.
		"terminationGracePeriodSeconds": 0,
		// The pod also runs on a node that is tainted as full or as not ready.
		"tolerations": []any{map[string]any{"operator": "Exists"}},
	}
	if s.NodeName != "" {
		spec["nodeName"] = s.NodeName
	}
	if s.Critical {
		spec["priorityClassName"] = "system-node-critical"
	}
	return map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": s.Name, "namespace": cmp.Or(s.Namespace, "default"), "labels": s.Labels},
		"spec":     spec,
	}
}

// CreatePod creates a pod at the kubelet's API server, bound to its node.
func (k *Kubelet) CreatePod(ctx context.Context, s PodSpec) error {
	s.NodeName = k.config.NodeName
	return Request(ctx, k.admin, http.MethodPost, k.podsURL(s.Namespace), s.Manifest(), nil)
}

// DeletePod deletes a pod at the API server; the kubelet then ends it.
func (k *Kubelet) DeletePod(ctx context.Context, namespace, name string) error {
	return Request(ctx, k.admin, http.MethodDelete, k.podsURL(namespace)+"/"+name, nil, nil)
}

func (k *Kubelet) podsURL(namespace string) string {
	return k.config.ControlPlane.URL() + "/api/v1/namespaces/" + cmp.Or(namespace, "default") + "/pods"
}

// AddStaticPod adds or replaces a static pod. The kubelet appends the node's name to
// the pod's name.
func (k *Kubelet) AddStaticPod(name string, manifest map[string]any) error {
	data, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return fmt.Errorf("add static pod %s: %w", name, err)
	}
	// By rename, so that the kubelet never reads an incomplete file.
	tmp := k.path(name + ".tmp")
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return fmt.Errorf("add static pod %s: %w", name, err)
	}
	if err := os.Rename(tmp, k.manifest(name)); err != nil {
		return fmt.Errorf("add static pod %s: %w", name, err)
	}
	return nil
}

// RemoveStaticPod removes a static pod; the kubelet then ends it.
func (k *Kubelet) RemoveStaticPod(name string) error {
	if err := os.Remove(k.manifest(name)); err != nil {
		return fmt.Errorf("remove static pod %s: %w", name, err)
	}
	return nil
}

func (k *Kubelet) manifest(name string) string { return filepath.Join(k.ManifestDir(), name+".json") }

// PodStatus is the status of a pod in the kubelet or in the API server.
type PodStatus struct {
	Namespace, Name, UID string
	Phase                string // "Pending", "Running", "Succeeded", "Failed"
	Ready                bool
	Message              string // why it does not run
}

func statusOf(p corev1.Pod) PodStatus {
	s := PodStatus{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
		Phase: string(p.Status.Phase), Message: p.Status.Message,
	}
	for _, c := range p.Status.Conditions {
		s.Ready = s.Ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}
	for _, c := range p.Status.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			s.Message = w.Reason + ": " + w.Message
		}
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			s.Message = fmt.Sprintf("exit code %d: %s: %s", t.ExitCode, t.Reason, t.Message)
		}
	}
	return s
}

// Pods returns the kubelet's pods, from its /pods.
func (k *Kubelet) Pods(ctx context.Context) ([]PodStatus, error) {
	var list corev1.PodList
	if err := Request(ctx, k.admin, http.MethodGet, k.url+"/pods", nil, &list); err != nil {
		return nil, fmt.Errorf("list pods of kubelet: %w", err)
	}
	pods := make([]PodStatus, len(list.Items))
	for i, p := range list.Items {
		pods[i] = statusOf(p)
	}
	return pods, nil
}

// WaitPod returns once want accepts the kubelet's status of a pod. While the kubelet
// has no such pod, gone is true and the status is empty. A static pod's name ends with
// the node's name.
func (k *Kubelet) WaitPod(ctx context.Context, namespace, name string, want func(s PodStatus, gone bool) bool) error {
	err := await.Until(ctx, "pod "+namespace+"/"+name, func(ctx context.Context) error {
		pods, err := k.Pods(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(pods, func(p PodStatus) bool { return p.Namespace == namespace && p.Name == name })
		var s PodStatus
		if i >= 0 {
			s = pods[i]
		}
		if !want(s, i < 0) {
			return fmt.Errorf("seen: %+v, gone: %v", s, i < 0)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w%s", err, process.Tail(k.LogFile()))
	}
	return nil
}

// IsRunning accepts a pod that runs and is ready. It is for WaitPod, as are IsGone and
// HasEnded.
func IsRunning(s PodStatus, _ bool) bool { return s.Phase == "Running" && s.Ready }

// IsGone accepts a pod that the kubelet no longer has.
func IsGone(_ PodStatus, gone bool) bool { return gone }

// HasEnded accepts a pod that has ended, with success or failure.
func HasEnded(s PodStatus, _ bool) bool { return s.Phase == "Succeeded" || s.Phase == "Failed" }
