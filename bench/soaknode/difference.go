package main

import (
	"bytes"
	"errors"
	"reflect"

	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/agent/node/config"
)

// difference returns the fields of used that differ from shipped, by path, with their values.
func difference(shipped, used config.Config) (map[string]any, error) {
	a, err := fields(shipped)
	b, err2 := fields(used)
	changed := make(map[string]any)
	for path, value := range b {
		if !reflect.DeepEqual(a[path], value) {
			changed[path] = value
		}
	}
	return changed, errors.Join(err, err2)
}

func fields(c config.Config) (map[string]any, error) {
	var text bytes.Buffer
	if err := config.Print(&text, c); err != nil {
		return nil, err
	}
	var tree map[string]any
	err := yaml.Unmarshal(text.Bytes(), &tree)
	flat := make(map[string]any)
	var walk func(path string, at map[string]any)
	walk = func(path string, at map[string]any) {
		for name, value := range at {
			if below, ok := value.(map[string]any); ok {
				walk(path+name+".", below)
			} else {
				flat[path+name] = value
			}
		}
	}
	walk("", tree)
	return flat, err
}
