package main

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// traces lists what ebb could leave behind, by kind.
type traces map[string][]string

// lookAround lists traces in the kernel and on the node, in containerd, and in the API
// server.
func (b *fixture) lookAround() (traces, error) {
	t := traces{}
	for _, dir := range []string{"/sys/fs/bpf", "/run/ebb", "/var/lib/ebb", "/etc/ebb", "/var/lib/kubelet/ebb"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && path != "/sys/fs/bpf" {
				t["files"] = append(t["files"], path)
			}
			return nil // a missing directory holds no traces
		})
		if err != nil {
			return nil, err
		}
	}
	for kind, command := range map[string][]string{
		"leases of containerd": {"ctr", "--namespace", "k8s.io", "leases", "list", "--quiet"},
		"objects": {
			"kubectl", "get", "--all-namespaces", "--ignore-not-found", "--no-headers", "--output=custom-columns=K:.kind,NS:.metadata.namespace,N:.metadata.name",
			"pods,services,endpointslices,deployments,daemonsets,replicasets,controllerrevisions,configmaps,secrets,serviceaccounts,leases,jobs," +
				"clusterroles,clusterrolebindings,roles,rolebindings,flowschemas,prioritylevelconfigurations,poddisruptionbudgets,networkpolicies," +
				"validatingadmissionpolicies,validatingadmissionpolicybindings,validatingwebhookconfigurations,customresourcedefinitions,namespaces",
		},
	} {
		text, err := b.run(command[0], command[1:]...)
		if err != nil {
			return nil, fmt.Errorf("look for traces: %w", err)
		}
		for line := range strings.Lines(text) {
			t[kind] = append(t[kind], strings.Join(strings.Fields(line), " "))
		}
	}
	return t, nil
}

// more returns the traces that other has and t has not.
func (t traces) more(other traces) []string {
	var more []string
	for kind, list := range other {
		for _, trace := range list {
			if !slices.Contains(t[kind], trace) {
				more = append(more, kind+": "+trace)
			}
		}
	}
	slices.Sort(more)
	return more
}
