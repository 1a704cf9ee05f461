package uninstall

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ebb-agent/ebb/policy/gc"
)

func TestTemplates(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "--image",
		"kind: Deployment\napiVersion: v1":   "kind: Pod",
		"kind: Pod\napiVersion: v1":          "one container, got 0",
		"a: [":                               "template",
		"metadata: 7":                        "template",
		"kind: Pod\nkind: Pod":               "template",
		strings.Repeat("#", maxTemplate+1):   "more than 256 KiB",
		"kind: Pod\napiVersion: v1\nspec: 7": "template",
		"kind: Pod\napiVersion: v1\nspec: {containers: [7]}":      "not a mapping",
		"kind: Pod\napiVersion: v1\nspec: {containers: [{}, {}]}": "got 2",
	} {
		if _, err := readTemplate(UnloadOptions{Template: []byte(text)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// TestDaemonSet: it tolerates all, rolls at once, unloads first and stays then, and is
// known by its labels; everything else is the template's.
func TestDaemonSet(t *testing.T) {
	o := UnloadOptions{Namespace: "ns", Image: "i", Nodes: []string{"n1", "n2"}, NodeSelector: "a", Template: []byte(
		`{apiVersion: v1, kind: Pod, metadata: {name: x, labels: {a: b}, annotations: {c: d}}, spec: {nodeName: other, restartPolicy: Never,
		activeDeadlineSeconds: 7, initContainers: [{name: k}], containers: [{name: m, image: j, args: [z]}], dnsPolicy: None}}`)}
	tpl, err := readTemplate(o)
	if err != nil {
		t.Fatal(err)
	}
	set, err := tpl.daemonSet(o, "r")
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"labels":{"ebb-agent.github.io/unload":"true"},"name":"ebb-unload","namespace":"ns"},` +
		`"spec":{"selector":{"matchLabels":{"ebb-agent.github.io/unload":"true"}},"template":{"metadata":{"annotations":{"c":"d"},` +
		`"labels":{"a":"b","ebb-agent.github.io/unload":"true","ebb-agent.github.io/unload-run":"r"}},"spec":{"affinity":{"nodeAffinity":` +
		`{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]},` +
		`{"matchFields":[{"key":"metadata.name","operator":"In","values":["n2"]}]}]}}},"containers":[{"args":["z","--stay"],"image":"i","name":"stay"}],` +
		`"dnsPolicy":"None","initContainers":[{"name":"k"},{"args":["z"],"image":"i","name":"m"}],"terminationGracePeriodSeconds":5,"tolerations":[{"operator":"Exists"}]}},` +
		`"updateStrategy":{"rollingUpdate":{"maxUnavailable":"100%"},"type":"RollingUpdate"}}}`
	if got, err := json.Marshal(set); string(got) != want || err != nil {
		t.Errorf("%v: %s\nwant\n%s", err, got, want)
	}
	if tpl.text("name") != "m" || tpl.Spec["nodeName"] != "other" {
		t.Errorf("the template itself was changed: %v", tpl.Spec)
	}
}

// TestNodeAffinity: a label selector means the same nodes in a DaemonSet.
func TestNodeAffinity(t *testing.T) {
	got, err := nodeAffinity(UnloadOptions{NodeSelector: "a=b,c notin (d),e,!f,g>3"})
	text, _ := json.Marshal(got)
	const want = `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[` +
		`{"key":"a","operator":"In","values":["b"]},{"key":"c","operator":"NotIn","values":["d"]},{"key":"e","operator":"Exists","values":[]},` +
		`{"key":"f","operator":"DoesNotExist","values":[]},{"key":"g","operator":"Gt","values":["3"]}]}]}}}`
	if string(text) != want || err != nil {
		t.Errorf("%v: %s\nwant\n%s", err, text, want)
	}
	if got, err := nodeAffinity(UnloadOptions{}); len(got) > 0 || err != nil {
		t.Errorf("no selector: %v, %v", got, err)
	}
	if _, err := nodeAffinity(UnloadOptions{NodeSelector: "a=b=c"}); err == nil || !strings.Contains(err.Error(), "--node-selector") {
		t.Error(err)
	}
}

func TestLost(t *testing.T) {
	for _, c := range []struct {
		owners string
		want   bool
	}{
		{`[]`, false},
		{`[{"kind":"DaemonSet"}]`, true},
		{`[{"kind":"ReplicaSet"},{"kind":"Service"}]`, true},
		{`[{"kind":"Job"}]`, false},
		{`[{"kind":"DaemonSet"},{"kind":"Job"}]`, false},
	} {
		var owners []gc.Reference
		if err := json.Unmarshal([]byte(c.owners), &owners); err != nil {
			t.Fatal(err)
		}
		if got := lost(owners); got != c.want {
			t.Errorf("%s: %v", c.owners, got)
		}
	}
}

// TestStatusMessage: what a person reads of a node that is not clean.
func TestStatusMessage(t *testing.T) {
	for text, want := range map[string]string{
		`{"metadata":{"name":"p"},"status":{"conditions":[{"type":"PodScheduled","status":"False","message":"0/1 nodes"}]}}`: "not scheduled: 0/1 nodes",
		`{"metadata":{"name":"p"}}`: "the kubelet there has not started the pod: is the node down?",
		`{"metadata":{"name":"p"},"status":{"startTime":"2026-01-02T03:04:05Z"}}`:                                                                                 "it runs",
		`{"metadata":{"name":"p"},"status":{"initContainerStatuses":[{"name":"m","state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}}]}}`: "ImagePullBackOff no such image",
		`{"metadata":{"name":"p"},"status":{"initContainerStatuses":[{"name":"m","state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off"}},
			"lastState":{"terminated":{"exitCode":1,"message":"no\u001b config"}}}]}}`: "no\ufffd config",
		`{"metadata":{"name":"p"},"status":{"initContainerStatuses":[{"name":"m","state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}`: "exit code 137, OOMKilled",
	} {
		var p corev1.Pod
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if got := statusOf(&p, "m"); got.message != want || got.clean || got.failed != strings.Contains(text, "exitCode") {
			t.Errorf("%s: %+v, want %q", text, got, want)
		}
	}
}

// TestNodeOfPod: also of one that is not bound.
func TestNodeOfPod(t *testing.T) {
	const affinity = `"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","values":["b"]}]}]}}}`
	for text, want := range map[string]string{`"nodeName":"a"`: "a", affinity: "b", `"nodeName":"a",` + affinity: "a", `"x":1`: ""} {
		var p corev1.Pod
		if err := json.Unmarshal([]byte(`{"spec":{`+text+`}}`), &p); err != nil || nodeOf(&p) != want {
			t.Errorf("%s: %v, %q", text, err, nodeOf(&p))
		}
	}
}
