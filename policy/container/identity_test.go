package container

import (
	"fmt"
	"strings"
	"testing"
)

func TestIdentify(t *testing.T) {
	labels := func(change map[string]string) map[string]string {
		all := map[string]string{
			"io.kubernetes.pod.uid":        "1b0c8a54-51a4-4f4e-8f5f-0d6a6f1c2d3e",
			"io.kubernetes.pod.namespace":  "kube-system",
			"io.kubernetes.pod.name":       "etcd-node1.example",
			"io.kubernetes.container.name": "etcd",
			"app":                          "anything / at all",
		}
		for key, value := range change {
			if all[key] = value; value == "" {
				delete(all, key)
			}
		}
		return all
	}
	whole := PodID{"1b0c8a54-51a4-4f4e-8f5f-0d6a6f1c2d3e", "kube-system", "etcd-node1.example"}
	for _, test := range []struct {
		name      string
		labels    map[string]string
		pod       PodID
		container string
	}{
		{"the kubelet's", labels(nil), whole, "etcd"},
		{"none", nil, PodID{}, ""},
		{"a sandbox's", labels(map[string]string{"io.kubernetes.container.name": ""}), whole, ""},
		{"a container name that is none", labels(map[string]string{"io.kubernetes.container.name": "a b"}), whole, ""},
		{"no UID", labels(map[string]string{"io.kubernetes.pod.uid": ""}), PodID{}, ""},
		{"no namespace", labels(map[string]string{"io.kubernetes.pod.namespace": ""}), PodID{}, ""},
		{"no name", labels(map[string]string{"io.kubernetes.pod.name": ""}), PodID{}, ""},
		{"a path", labels(map[string]string{"io.kubernetes.pod.uid": "../../../etc"}), PodID{}, ""},
		{"the parent folder", labels(map[string]string{"io.kubernetes.pod.name": ".."}), PodID{}, ""},
		{"this folder", labels(map[string]string{"io.kubernetes.pod.namespace": "."}), PodID{}, ""},
		{"a line break", labels(map[string]string{"io.kubernetes.pod.name": "a\nb"}), PodID{}, ""},
		{"a null byte", labels(map[string]string{"io.kubernetes.pod.name": "a\x00"}), PodID{}, ""},
		{"not ASCII", labels(map[string]string{"io.kubernetes.pod.name": "café"}), PodID{}, ""},
		{"a static pod's hash", labels(map[string]string{"io.kubernetes.pod.uid": "d41d8cd98f00b204e9800998ecf8427e"}),
			PodID{"d41d8cd98f00b204e9800998ecf8427e", "kube-system", "etcd-node1.example"}, "etcd"},
		{"a UID somebody made up", labels(map[string]string{"io.kubernetes.pod.uid": "My_UID:1"}),
			PodID{"My_UID:1", "kube-system", "etcd-node1.example"}, "etcd"},
		{"every character there is", labels(map[string]string{"io.kubernetes.container.name": "azAZ09-._:"}), whole, "azAZ09-._:"},
		{"the longest name", labels(map[string]string{"io.kubernetes.container.name": strings.Repeat("x", 253)}), whole, strings.Repeat("x", 253)},
		{"one longer", labels(map[string]string{"io.kubernetes.container.name": strings.Repeat("x", 254)}), whole, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod, container := Identify(test.labels)
			if pod != test.pod || container != test.container {
				t.Errorf("%+v %q, want %+v %q", pod, container, test.pod, test.container)
			}
		})
	}
	for _, c := range "/;@[`{ \x7f" { // the neighbours of those that are allowed
		if _, container := Identify(labels(map[string]string{"io.kubernetes.container.name": "a" + string(c)})); container != "" {
			t.Errorf("%q is let through", container)
		}
	}
	if got := fmt.Sprint(whole); got != "kube-system/etcd-node1.example" {
		t.Errorf("is called %q", got)
	}
}
