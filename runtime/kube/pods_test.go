package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// wirePod is a pod as a test wants it on the wire.
type wirePod struct {
	Namespace, Name, UID string
	Node                 string
	Version              int
	Hash                 string // not "": a mirror pod
	Phase, Reason        string
	Deleting             bool
	Images               []string
}

func (w wirePod) json() []byte {
	metadata := map[string]any{"name": w.Name, "namespace": w.Namespace, "uid": w.UID, "resourceVersion": fmt.Sprint(w.Version)}
	if w.Hash != "" {
		metadata["annotations"] = map[string]string{"kubernetes.io/config.hash": w.Hash, "kubernetes.io/config.mirror": w.Hash}
	}
	if w.Deleting {
		metadata["deletionTimestamp"] = "2026-01-02T03:04:05Z"
	}
	var containers []any
	for i, ref := range w.Images {
		containers = append(containers, map[string]any{"name": fmt.Sprint("c", i), "image": ref})
	}
	return mustJSON(map[string]any{
		"kind": "Pod", "apiVersion": "v1", "metadata": metadata,
		"spec":   map[string]any{"nodeName": w.Node, "containers": containers},
		"status": map[string]any{"phase": w.Phase, "reason": w.Reason},
	})
}

// pod is what should come of it.
func (w wirePod) pod() Pod {
	p := Pod{UID: w.UID, Namespace: w.Namespace, Name: w.Name, Deleting: w.Deleting,
		Ended: w.Phase == "Failed" || w.Phase == "Succeeded", Evicted: w.Phase == "Failed" && w.Reason == "Evicted"}
	if w.Hash != "" {
		p.UID = w.Hash
	}
	seen := make(map[string]bool)
	for _, ref := range w.Images {
		if !seen[ref] {
			p.Images = append(p.Images, ref)
		}
		seen[ref] = true
	}
	return p
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// inOrder sorts pods as a reading has them.
func inOrder(list []Pod) []Pod {
	key := func(p Pod) string { return p.Namespace + "\x00" + p.Name + "\x00" + p.UID }
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Pod) int { return strings.Compare(key(a), key(b)) })
	return list
}

// wireList is a PodList of the given pods, which need no kind in there.
func wireList(version string, pods ...[]byte) []byte {
	return fmt.Appendf(nil, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[%s]}`,
		version, bytes.Join(pods, []byte(",")))
}

func wireEvent(kind string, object []byte) []byte {
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", kind, object)
}

func wireBookmark(version int) []byte {
	return wireEvent("BOOKMARK", fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"spec":{"containers":null},"status":{}}`, version))
}

func wireStatus(code int, reason, message, name string) []byte {
	return mustJSON(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"message": message, "reason": reason, "code": code,
		"details": map[string]string{"name": name, "kind": "pods"},
	})
}

// wireTooLarge is the answer of an API server whose cache does not get to a version in time
// (apiserver/pkg/storage/errors.go).
func wireTooLarge(want, at int) []byte {
	return mustJSON(map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure", "code": 504, "reason": "Timeout",
		"message": fmt.Sprintf("Timeout: Too large resource version: %d, current: %d", want, at),
		"details": map[string]any{"causes": []any{map[string]string{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}}, "retryAfterSeconds": 1},
	})
}

// bulkyPod is about 20 KiB: what a pod with a few containers, probes, managed
// fields and a status takes.
func bulkyPod(i int) []byte {
	text := func(n int) string { return strings.Repeat("lorem ipsum ", n/12) }
	var containers, statuses []any
	for c := range 4 {
		var env []any
		for e := range 12 {
			env = append(env, map[string]any{"name": fmt.Sprint("VARIABLE_", e), "value": text(40)})
		}
		containers = append(containers, map[string]any{
			"name": fmt.Sprint("container-", c), "image": fmt.Sprintf("registry.example/team/app-%d:v%d", c, i%20),
			"env": env, "command": []string{text(60), text(60)},
			"resources":     map[string]any{"limits": map[string]string{"cpu": "1", "memory": "1Gi"}},
			"livenessProbe": map[string]any{"httpGet": map[string]any{"path": "/healthz", "port": 8080}, "periodSeconds": 10},
			"volumeMounts":  []any{map[string]string{"name": "data", "mountPath": "/data"}, map[string]string{"name": "token", "mountPath": "/var/run"}},
		})
		statuses = append(statuses, map[string]any{"name": fmt.Sprint("container-", c), "imageID": "registry.example/team/app@sha256:" + strings.Repeat("ab", 32),
			"containerID": "containerd://" + strings.Repeat("cd", 32), "state": map[string]any{"running": map[string]string{"startedAt": "2026-01-02T03:04:05Z"}}})
	}
	var managed []any
	for m := range 4 {
		managed = append(managed, map[string]any{"manager": fmt.Sprint("manager-", m), "fieldsV1": map[string]any{"f:spec": text(1500)}})
	}
	return mustJSON(map[string]any{
		"metadata": map[string]any{
			"name": fmt.Sprintf("app-%d-5d4f8c7b9-abcde", i), "namespace": fmt.Sprint("team-", i%10), "uid": fmt.Sprintf("00000000-0000-4000-8000-%012d", i),
			"resourceVersion": fmt.Sprint(1000 + i), "managedFields": managed,
			"annotations": map[string]string{"kubectl.kubernetes.io/last-applied-configuration": text(5000)},
			"labels":      map[string]string{"app": fmt.Sprint("app-", i)},
		},
		"spec":   map[string]any{"nodeName": "node-1", "containers": containers, "tolerations": []any{map[string]string{"operator": "Exists"}}},
		"status": map[string]any{"phase": "Running", "containerStatuses": statuses, "conditions": []any{map[string]string{"type": "Ready", "message": text(300)}}},
	})
}
