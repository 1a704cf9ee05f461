package sysdump

import (
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/sysdump/redact"
)

type object = map[string]any

// shownPrefixes are the prefixes of the annotations that are kept. Other annotations may hold
// anything, as last-applied-configuration does.
var shownPrefixes = []string{"ebb/", "kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/restartedAt", "deprecated.daemonset.template.generation", "deployment.kubernetes.io/revision", "kubernetes.io/config."}

// pare masks values of environment variables and removes most annotations, at any depth of an
// object: both may hold secrets. It also removes managedFields, which no reader needs.
func pare(v any, counts redact.Counts) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			pare(item, counts)
		}
	case object:
		delete(v, "managedFields")
		if annotations, ok := v["annotations"].(object); ok {
			pareAnnotations(annotations)
		}
		if env, ok := v["env"].([]any); ok {
			pareEnvironment(env, counts)
		}
		for _, inner := range v {
			pare(inner, counts)
		}
	}
}

func pareAnnotations(annotations object) {
	for name := range annotations {
		shown := false
		for _, prefix := range shownPrefixes {
			shown = shown || strings.HasPrefix(name, prefix)
		}
		if !shown {
			delete(annotations, name)
		}
	}
}

// pareEnvironment masks values. It keeps the names of variables, and valueFrom.
func pareEnvironment(env []any, counts redact.Counts) {
	for _, item := range env {
		if variable, ok := item.(object); ok && variable["value"] != nil {
			variable["value"] = redact.Mask
			counts[redact.Environ]++
		}
	}
}

// object adds an object as YAML.
func (a *archive) object(o object, name ...string) {
	counts := redact.Counts{}
	pare(o, counts)
	data, err := yaml.Marshal(redact.Object(o, counts))
	if err != nil {
		a.failed(err, name...)
		return
	}
	a.add(string(data), counts, name...)
}

// configMap adds a ConfigMap. It treats each value as a YAML document, and drops binaryData.
func (a *archive) configMap(o object, name ...string) {
	counts := redact.Counts{}
	pare(o, counts)
	delete(o, "binaryData")
	data, _ := o["data"].(object)
	delete(o, "data")
	clean := redact.Object(o, counts).(object)
	documents := object{}
	for key, document := range data {
		text, _ := document.(string)
		if !redact.Sensitive(key) {
			documents[redact.Text(key, counts)] = string(redact.YAML([]byte(text), counts))
			continue
		}
		counts[redact.Value]++
		documents[key] = redact.Mask
	}
	clean["data"] = documents
	out, err := yaml.Marshal(clean)
	if err != nil {
		a.failed(err, name...)
		return
	}
	a.add(string(out), counts, name...)
}
