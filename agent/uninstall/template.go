package uninstall

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// unloadLabel is on every pod that unloads a node.
const unloadLabel = "ebb-agent.github.io/unload"

// maxTemplate bounds the file.
const maxTemplate = 256 << 10

// template is a v1 Pod, of which metadata's name and spec's node are filled in.
type template map[string]any

// builtin is used when no template is given. The pod sees the node's whole file
// system, because a state directory can be removed only from above it, and needs no
// capability but that of making it its root. It has the node's network only because it
// needs none: nothing has to be set up that could be broken.
const builtin = `
apiVersion: v1
kind: Pod
spec:
  hostNetwork: true
  automountServiceAccountToken: false
  priorityClassName: system-node-critical
  containers:
  - name: unload
    image: ""
    command: [/usr/bin/ebb-agent, --unload, --root=/host, --wait=60s]
    terminationMessagePolicy: FallbackToLogsOnError
    securityContext:
      runAsUser: 0
      runAsGroup: 0
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL], add: [SYS_CHROOT]}
      seccompProfile: {type: RuntimeDefault}
      appArmorProfile: {type: Unconfined}
    volumeMounts:
    - {name: host, mountPath: /host}
  volumes:
  - name: host
    hostPath: {path: /}
`

// readTemplate checks what it needs of a template.
func readTemplate(o UnloadOptions) (template, error) {
	text := o.Template
	if len(text) == 0 {
		if o.Image == "" {
			return nil, errors.New("neither a template nor an image is given: --image IMAGE names one with ebb-agent in it")
		}
		text = []byte(builtin)
	}
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("template: more than %d KiB", maxTemplate>>10)
	}
	var t template
	if err := yaml.UnmarshalStrict(text, &t); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	if t["kind"] != "Pod" || t["apiVersion"] != "v1" {
		return nil, errors.New("template: want kind: Pod with apiVersion: v1")
	}
	spec, _ := t["spec"].(map[string]any)
	containers, _ := spec["containers"].([]any)
	if len(containers) != 1 {
		return nil, fmt.Errorf("template: want spec.containers with one container, got %d", len(containers))
	}
	c, ok := containers[0].(map[string]any)
	if !ok {
		return nil, errors.New("template: spec.containers[0] is no mapping")
	}
	if o.Image != "" {
		c["image"] = o.Image
	}
	return t, nil
}

func (t template) spec() map[string]any { return t["spec"].(map[string]any) } // readTemplate has looked

func (t template) image() string {
	c, _ := t.spec()["containers"].([]any)[0].(map[string]any)
	image, _ := c["image"].(string)
	return image
}

// on makes the pod of one node.
func (t template) on(node, namespace string, deadlineSeconds int) map[string]any {
	spec := make(map[string]any, len(t.spec())+4)
	for k, v := range t.spec() {
		spec[k] = v
	}
	spec["nodeName"], spec["restartPolicy"] = node, "Never"
	spec["activeDeadlineSeconds"] = deadlineSeconds
	spec["tolerations"] = []any{map[string]any{"operator": "Exists"}}
	labels := map[string]any{}
	old, _ := t["metadata"].(map[string]any)
	if l, ok := old["labels"].(map[string]any); ok {
		for k, v := range l {
			labels[k] = v
		}
	}
	labels[unloadLabel] = "true"
	meta := map[string]any{"name": podName(node), "namespace": namespace, "labels": labels}
	if a, ok := old["annotations"]; ok {
		meta["annotations"] = a
	}
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
}

// podName is the same for a node each time, and no other node's: names of nodes may be
// longer than what a pod's label may hold.
func podName(node string) string {
	sum := sha256.Sum256([]byte(node))
	short := strings.Trim(node[:min(len(node), 40)], ".-")
	return "ebb-unload-" + short + "-" + hex.EncodeToString(sum[:4])
}
