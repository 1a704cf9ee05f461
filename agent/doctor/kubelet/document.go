package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// maxFileBytes bounds a configuration file; a real one has a few kilobytes.
const maxFileBytes = 1 << 20

// document is a KubeletConfiguration whose fields are not decoded yet. When files are merged, an
// absent field and a null field differ. The types of k8s.io/kubelet cannot tell them apart, and
// depend on all of k8s.io/api.
type document map[string]json.RawMessage

// parseFile reads YAML or JSON with the kind and the apiVersion of a KubeletConfiguration.
func parseFile(data []byte) (document, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("larger than %d bytes", maxFileBytes)
	}
	asJSON, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("not valid YAML: %w", err)
	}
	var d document
	var is struct{ Kind, APIVersion string }
	if err := json.Unmarshal(asJSON, &d); err != nil {
		return nil, errors.New("not a mapping")
	}
	if err := json.Unmarshal(asJSON, &is); err != nil || is.Kind != "KubeletConfiguration" || is.APIVersion != "kubelet.config.k8s.io/v1beta1" {
		return nil, fmt.Errorf("kind %.60q, apiVersion %.60q: want KubeletConfiguration, kubelet.config.k8s.io/v1beta1", is.Kind, is.APIVersion)
	}
	return d, nil
}

// lay applies a document on top of the settings.
func (s *Settings) lay(doc document, from string) error {
	var errs []error
	usual := Defaults()
	for _, k := range knobs {
		raw, present := doc[k.field]
		if k.field == "" || !present {
			continue
		}
		if err := k.of(s).layJSON(raw, from, k.of(&usual)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", k.field, err))
		}
	}
	return errors.Join(errs...)
}

// layFile applies the file of --config on top of the settings. Only this file brings the default
// thresholds, and only if it sets none of its own or has mergeDefaultEvictionSettings
// (loadConfigFile in cmd/kubelet/app/server.go). Drop-ins are applied key by key.
func (s *Settings) layFile(data []byte, from string) error {
	doc, err := parseFile(data)
	if err == nil {
		err = s.lay(doc, from)
	}
	if err != nil {
		return err
	}
	merge := false
	if raw, present := doc["mergeDefaultEvictionSettings"]; present {
		if err := json.Unmarshal(raw, &merge); err != nil {
			return fmt.Errorf("mergeDefaultEvictionSettings: %w", err)
		}
	}
	if raw, present := doc["evictionHard"]; present && string(raw) != "null" && !merge {
		return nil
	}
	for signal, v := range defaultEvictionHard {
		if _, set := s.EvictionHard[signal]; !set {
			s.EvictionHard[signal] = Value[string]{v, FromDefault}
		}
	}
	return nil
}

// layDropIn applies a file of --config-dir on top of the settings.
func (s *Settings) layDropIn(data []byte, from string) error {
	doc, err := parseFile(data)
	if err == nil {
		err = s.lay(doc, from)
	}
	return err
}

// FromFile reads a configuration file that the user named, as if a kubelet had been started with
// this file alone.
func FromFile(name string) (Settings, error) {
	s := Defaults()
	data, _, err := readConfiguration(os.OpenFile(name, readOnly, 0))
	if err == nil {
		err = s.layFile(data, clean(name))
	}
	if err != nil {
		return s, fmt.Errorf("the kubelet's configuration %s: %w", clean(name), err)
	}
	return s, nil
}
