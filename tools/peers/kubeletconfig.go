package peers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"

	corev1 "k8s.io/api/core/v1"

	"sigs.k8s.io/yaml"
)

// arguments writes the configuration and credentials, and returns the flags for them.
func (k *Kubelet) arguments() ([]string, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	k.url = fmt.Sprintf("https://127.0.0.1:%d", port)
	if cp := k.config.ControlPlane; cp != nil {
		k.ca = cp.Authority()
	} else if k.ca, err = NewAuthority("peers-" + k.config.NodeName); err != nil {
		return nil, err
	}
	if k.admin, err = k.Client("peers-admin", "system:masters"); err != nil {
		return nil, err
	}
	serving, err := k.ca.Server(k.config.NodeName, k.config.NodeName)
	if err != nil {
		return nil, err
	}
	server, err := serving.Write(k.path("pki"), "kubelet")
	if err != nil {
		return nil, err
	}
	data, err := yaml.Marshal(overlay(k.defaults(port, server), k.config.Configuration))
	if err != nil {
		return nil, fmt.Errorf("encode kubelet's configuration: %w", err)
	}
	if err := os.WriteFile(k.ConfigFile(), data, 0o600); err != nil {
		return nil, fmt.Errorf("write kubelet's configuration: %w", err)
	}
	args := []string{
		"--config=" + k.ConfigFile(), "--root-dir=" + k.root, "--cert-dir=" + k.path("pki"),
		"--hostname-override=" + k.config.NodeName, "--v=2",
	}
	if k.config.ControlPlane == nil {
		return args, nil
	}
	return append(args, "--kubeconfig="+k.path("kubeconfig")), k.writeKubeconfig()
}

func (k *Kubelet) writeKubeconfig() error {
	creds, err := k.ca.Client(User{Name: "system:node:" + k.config.NodeName, Groups: []string{"system:nodes"}})
	if err != nil {
		return err
	}
	cp := k.config.ControlPlane
	return writeKubeconfig(k.path("kubeconfig"), cp.URL(), cp.Authority().PEM(), certificateUser(creds))
}

// freePort returns a port that is free now. It cannot stay reserved (see reservation),
// because the kubelet cannot share a port.
func freePort() (int, error) {
	r, err := reservePort()
	if err != nil {
		return 0, err
	}
	return r.port, r.release()
}

// defaults is the configuration that a kubelet needs on a machine that is not its own.
// Garbage collection and eviction keep the kubelet's own defaults.
func (k *Kubelet) defaults(port int, server Files) map[string]any {
	socket := "unix://" + k.config.Node.Socket()
	authorization := "AlwaysAllow" // for every client with a certificate
	if k.config.ControlPlane != nil {
		authorization = "Webhook"
	}
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",

		"address": "127.0.0.1", "port": port, "readOnlyPort": 0, "healthzPort": 0,
		"tlsCertFile": server.Cert, "tlsPrivateKeyFile": server.Key,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": k.config.ControlPlane != nil},
			"x509":      map[string]any{"clientCAFile": server.CA},
		},
		"authorization": map[string]any{"mode": authorization},

		"containerRuntimeEndpoint": socket, "imageServiceEndpoint": socket,
		"staticPodPath": k.ManifestDir(), "podLogsDir": k.PodLogsDir(),
		"volumePluginDir": k.path("volume-plugins"),
		"registerNode":    k.config.ControlPlane != nil,

		// The cgroups of pods must be below the node's, where they are found again.
		// Without cgroupsPerQOS they would be at the top of each hierarchy.
		"cgroupDriver": "cgroupfs", "cgroupRoot": k.config.Node.Cgroup(), "cgroupsPerQOS": true,
		"enforceNodeAllocatable": []string{}, "failCgroupV1": false,
		// Settings of the machine, which the kubelet must not touch.
		"failSwapOn": false, "makeIPTablesUtilChains": false, "enableControllerAttachDetach": false,
		// Pods use the host's network, whatever its resolver.
		"resolvConf": "",
	}
}

// overlay returns base with the fields of top merged into it.
func overlay(base, top map[string]any) map[string]any {
	merged := maps.Clone(base)
	for name, value := range top {
		below, both := merged[name].(map[string]any)
		above, ok := value.(map[string]any)
		switch {
		case value == nil:
			delete(merged, name)
		case both && ok:
			merged[name] = overlay(below, above)
		default:
			merged[name] = value
		}
	}
	return merged
}

var errNotReady = errors.New("node is not ready")

// askReady checks the kubelet's health and, with a control plane, whether its node is
// ready.
func (k *Kubelet) askReady(ctx context.Context) error {
	if err := ask(ctx, k.admin, k.url+"/healthz"); err != nil {
		return err
	}
	cp := k.config.ControlPlane
	if cp == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var node corev1.Node
	err := Request(ctx, k.admin, http.MethodGet, cp.URL()+"/api/v1/nodes/"+k.config.NodeName, nil, &node)
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("%w: %v", errNotReady, node.Status.Conditions)
}
