package peers

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// kubeconfig has the fields of client-go's Config that are used here.
type kubeconfig struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Clusters   []namedEntry `json:"clusters"`
	Users      []namedEntry `json:"users"`
	Contexts   []namedEntry `json:"contexts"`
	Current    string       `json:"current-context"`
}

// namedEntry is one of the three, by which of its fields is set.
type namedEntry struct {
	Name    string         `json:"name"`
	Cluster map[string]any `json:"cluster,omitempty"`
	User    map[string]any `json:"user,omitempty"`
	Context map[string]any `json:"context,omitempty"`
}

// writeKubeconfig stores how to reach a server, and as whom: user holds the
// fields of client-go's AuthInfo. []byte becomes base64, as it is wanted.
func writeKubeconfig(path, server string, ca []byte, user map[string]any) error {
	const name = "peers"
	data, err := yaml.Marshal(kubeconfig{
		APIVersion: "v1", Kind: "Config", Current: name,
		Clusters: []namedEntry{{Name: name, Cluster: map[string]any{
			"server": server, "certificate-authority-data": ca,
		}}},
		Users:    []namedEntry{{Name: name, User: user}},
		Contexts: []namedEntry{{Name: name, Context: map[string]any{"cluster": name, "user": name}}},
	})
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

func certificateUser(c Credentials) map[string]any {
	return map[string]any{"client-certificate-data": c.Cert, "client-key-data": c.Key}
}
