package uninstall

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/yaml"
)

const (
	setName = "ebb-unload"
	// unloadLabel is on all objects that unload makes, runLabel on the pods of one run.
	unloadLabel = "ebb-agent.github.io/unload"
	runLabel    = "ebb-agent.github.io/unload-run"
	// maxTemplate bounds the file, in bytes.
	maxTemplate = 256 << 10
)

// builtin is used when no template is given. The pod sees the node's whole file system, because a
// state directory can be removed only from above it. It needs no capability but the one to make
// that file system its root. It has the node's network because it needs no network: so no pod
// network has to be set up, which could be broken.
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
    command: [/usr/bin/ebb-agent, unload, --root=/host, --wait=60s]
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

// template is a v1 Pod with one container, which runs ebb-agent unload.
type template struct {
	APIVersion, Kind string
	Metadata         struct{ Labels, Annotations map[string]string }
	Spec             object
}

// readTemplate reads the template and checks the fields that unload needs.
func readTemplate(o UnloadOptions) (t template, err error) {
	text := o.Template
	if len(text) == 0 {
		if o.Image == "" {
			return t, errors.New("neither a template nor an image is given: --image IMAGE names an image that has ebb-agent")
		}
		text = []byte(builtin)
	}
	if len(text) > maxTemplate {
		return t, fmt.Errorf("template: more than %d KiB", maxTemplate>>10)
	}
	if err = yaml.UnmarshalStrict(text, &object{}); err == nil { // refuses duplicate keys
		err = yaml.Unmarshal(text, &t)
	}
	containers, _ := t.Spec["containers"].([]any)
	switch {
	case err != nil:
		return t, fmt.Errorf("template: %w", err)
	case t.Kind != "Pod" || t.APIVersion != "v1":
		return t, errors.New("template: want kind: Pod with apiVersion: v1")
	case len(containers) != 1:
		return t, fmt.Errorf("template: want spec.containers with one container, got %d", len(containers))
	}
	if _, ok := containers[0].(object); !ok {
		return t, errors.New("template: spec.containers[0] is not a mapping")
	}
	if o.Image != "" {
		t.unload()["image"] = o.Image
	}
	return t, nil
}

func (t *template) unload() object { return t.Spec["containers"].([]any)[0].(object) } // see readTemplate

// text returns a field of the container, or "" if it has no text.
func (t *template) text(field string) string { s, _ := t.unload()[field].(string); return s }

// daemonSet returns a DaemonSet with the template's container as an init container. Another
// container stays, because the pod of a DaemonSet may not end.
func (t *template) daemonSet(o UnloadOptions, run string) (object, error) {
	affinity, err := nodeAffinity(o)
	if err != nil {
		return nil, err
	}
	stay, spec, marks := maps.Clone(t.unload()), maps.Clone(t.Spec), map[string]string{}
	args, _ := stay["args"].([]any)
	stay["name"], stay["args"] = "stay", append(slices.Clone(args), "--stay")
	first, _ := spec["initContainers"].([]any)
	spec["initContainers"], spec["containers"] = append(slices.Clone(first), t.unload()), []any{stay}
	spec["terminationGracePeriodSeconds"] = 5 // it may be killed at any moment
	spec["tolerations"], spec["affinity"] = []any{object{"operator": "Exists"}}, affinity
	for _, not := range []string{"nodeName", "restartPolicy", "activeDeadlineSeconds"} {
		delete(spec, not)
	}
	maps.Copy(marks, t.Metadata.Labels)
	marks[unloadLabel], marks[runLabel] = "true", run
	mark := map[string]string{unloadLabel: "true"}
	return object{
		"apiVersion": "apps/v1", "kind": "DaemonSet",
		"metadata": object{"name": setName, "namespace": o.Namespace, "labels": mark},
		"spec": object{
			"selector":       object{"matchLabels": mark},
			"updateStrategy": object{"type": "RollingUpdate", "rollingUpdate": object{"maxUnavailable": "100%"}},
			"template":       object{"metadata": object{"labels": marks, "annotations": t.Metadata.Annotations}, "spec": spec},
		},
	}, nil
}

var operators = map[selection.Operator]string{
	selection.Equals: "In", selection.DoubleEquals: "In", selection.In: "In", selection.NotEquals: "NotIn", selection.NotIn: "NotIn",
	selection.Exists: "Exists", selection.DoesNotExist: "DoesNotExist", selection.GreaterThan: "Gt", selection.LessThan: "Lt",
}

// nodeAffinity selects the named nodes or, if none is named, those of the selector.
func nodeAffinity(o UnloadOptions) (object, error) {
	requirements, err := labels.ParseToRequirements(o.NodeSelector)
	if err != nil {
		return nil, fmt.Errorf("--node-selector: %w", err)
	}
	var terms, all []object
	for _, name := range o.Nodes {
		terms = append(terms, object{"matchFields": []object{{"key": "metadata.name", "operator": "In", "values": []string{name}}}})
	}
	for _, r := range requirements {
		all = append(all, object{"key": r.Key(), "operator": operators[r.Operator()], "values": r.ValuesUnsorted()})
	}
	switch {
	case len(terms) == 0 && len(all) == 0:
		return object{}, nil
	case len(terms) == 0:
		terms = []object{{"matchExpressions": all}}
	}
	return object{"nodeAffinity": object{"requiredDuringSchedulingIgnoredDuringExecution": object{"nodeSelectorTerms": terms}}}, nil
}
