// Package configcheck reads configuration files of ebb's programs as the programs do. It reports
// which program a file is for, what is wrong with the file, and how it differs from the defaults.
package configcheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"

	controller "github.com/ebb-agent/ebb/agent/cluster/config"
	agent "github.com/ebb-agent/ebb/agent/node/config"
)

// Kind is the program that a configuration is for.
type Kind string

// The kinds.
const (
	Agent      Kind = "agent"
	Controller Kind = "controller"
)

// ErrKind means that a file's fields do not show which program it is for.
var ErrKind = errors.New("cannot tell whether it is for ebb-agent or ebb-controller")

// Difference is a field whose value is not the default.
type Difference struct {
	Field   string `json:"field"`
	Value   any    `json:"value"`
	Default any    `json:"default"`
}

// Check reads a configuration of a kind. If kind is empty, the fields of the file decide it. The
// error joins all problems of the file.
func Check(data []byte, kind Kind) (Kind, []Difference, error) {
	if kind == "" {
		var err error
		if kind, err = guess(data); err != nil {
			return "", nil, err
		}
	}
	switch kind {
	case Agent:
		c, err := agent.Parse(data)
		if err != nil {
			return kind, nil, err
		}
		return kind, differences(c, agent.Default()), nil
	case Controller:
		c, err := controller.Parse(data)
		if err != nil {
			return kind, nil, err
		}
		return kind, differences(c, controller.Default()), nil
	}
	return "", nil, fmt.Errorf("kind %q: want agent or controller", kind)
}

// guess returns the kind from the fields that only one kind has.
func guess(data []byte) (Kind, error) {
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return "", fmt.Errorf("not valid YAML: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(asJSON, &fields); err != nil {
		return "", errors.New("(whole file): want a mapping")
	}
	agents, controllers := names(agent.Config{}), names(controller.Config{})
	var ofAgent, ofController []string
	for name := range fields {
		switch a, c := slices.Contains(agents, name), slices.Contains(controllers, name); {
		case a && !c:
			ofAgent = append(ofAgent, name)
		case c && !a:
			ofController = append(ofController, name)
		}
	}
	switch {
	case len(ofAgent) > 0 && len(ofController) == 0:
		return Agent, nil
	case len(ofController) > 0 && len(ofAgent) == 0:
		return Controller, nil
	case len(ofAgent) == 0:
		return "", fmt.Errorf("%w: no field of it is that of one alone", ErrKind)
	}
	slices.Sort(ofAgent)
	slices.Sort(ofController)
	return "", fmt.Errorf("%w: %s are ebb-agent's, %s ebb-controller's", ErrKind, strings.Join(ofAgent, ", "), strings.Join(ofController, ", "))
}

// names returns the names of the top-level fields of a configuration.
func names(config any) []string {
	t := reflect.TypeOf(config)
	all := make([]string, t.NumField())
	for i := range all {
		all[i] = t.Field(i).Tag.Get("json")
	}
	return all
}

func differences(config, defaults any) []Difference {
	return differ(nil, "", reflect.ValueOf(config), reflect.ValueOf(defaults))
}

func differ(all []Difference, path string, v, def reflect.Value) []Difference {
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			at := strings.TrimPrefix(path+"."+v.Type().Field(i).Tag.Get("json"), ".")
			all = differ(all, at, v.Field(i), def.Field(i))
		}
		return all
	}
	empty := v.Kind() == reflect.Slice && v.Len() == 0 && def.Len() == 0
	if empty || reflect.DeepEqual(v.Interface(), def.Interface()) {
		return all
	}
	return append(all, Difference{path, plain(v), plain(def)})
}

// plain returns a value as it is in a file: durations are text.
func plain(v reflect.Value) any {
	if s, ok := v.Interface().(fmt.Stringer); ok {
		return s.String()
	}
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Slice:
		items := make([]any, v.Len())
		for i := range items {
			items[i] = plain(v.Index(i))
		}
		return items
	case reflect.Struct:
		fields := map[string]any{}
		for i := range v.NumField() {
			fields[v.Type().Field(i).Tag.Get("json")] = plain(v.Field(i))
		}
		return fields
	}
	return v.Interface()
}

// Text returns a value as JSON on one line, with unprintable characters escaped.
func Text(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("%q", fmt.Sprint(value))
	}
	var b strings.Builder
	for _, r := range string(data) {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}
