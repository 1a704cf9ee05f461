// Package shipped reads the default configurations from deploy/manifests, which are
// rendered from the chart's defaults. Benchmarks start from them.
package shipped

import (
	"bytes"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/tools/process"
)

// Config returns the configuration of a component, "agent" or "controller", as YAML.
func Config(component string) ([]byte, error) {
	file, err := process.Find("deploy/manifests/" + map[string]string{"agent": "agent.yaml", "controller": "controller/controller.yaml"}[component])
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var o struct {
			Kind string
			Data map[string]string
		}
		if err := yaml.Unmarshal(document, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if config, ok := o.Data[component+".yaml"]; ok && o.Kind == "ConfigMap" {
			return []byte(config), nil
		}
	}
	return nil, fmt.Errorf("%s has no configuration of the %s", file, component)
}
