package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is one value of values.yaml.
type Value struct {
	Path    string // "agent.metrics.port"
	Doc     string
	Default any
	Fields  []Value // of a non-empty mapping, in file order
}

// ReadValues reads a values.yaml. Each value without fields must have a comment above it.
func ReadValues(file string) ([]Value, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read values: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("read values: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("read values: %s is not a mapping", file)
	}
	values, err := valuesOf("", doc.Content[0])
	if err != nil {
		return nil, fmt.Errorf("read values:\n%w", err)
	}
	return values, nil
}

func valuesOf(above string, mapping *yaml.Node) (list []Value, err error) {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, node := mapping.Content[i], mapping.Content[i+1]
		v := Value{Path: strings.TrimPrefix(above+"."+key.Value, "."), Doc: comment(key.HeadComment)}
		if e := node.Decode(&v.Default); e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", v.Path, e))
		}
		// A mapping with a comment is one value: the fields of configurations and of
		// Kubernetes types are documented elsewhere.
		if node.Kind == yaml.MappingNode && len(node.Content) > 0 && v.Doc == "" {
			var e error
			v.Fields, e = valuesOf(v.Path, node)
			err = errors.Join(err, e)
		} else if v.Doc == "" {
			err = errors.Join(err, fmt.Errorf("%s: has no comment above it", v.Path))
		}
		list = append(list, v)
	}
	return list, err
}

// comment joins the last paragraph of a comment: the one right above its value.
func comment(head string) string {
	paragraphs := strings.Split(head, "\n\n")
	var words []string
	for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
		words = append(words, strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "#"))...)
	}
	return strings.Join(words, " ")
}

// leaves returns all values without fields.
func leaves(values []Value) (list []Value) {
	for _, v := range values {
		if v.Fields != nil {
			list = append(list, leaves(v.Fields)...)
			continue
		}
		list = append(list, v)
	}
	return list
}

// text returns the default on one line, as JSON, which is valid YAML.
func (v Value) text() string {
	data, err := json.Marshal(v.Default)
	if err != nil {
		return fmt.Sprint(v.Default)
	}
	return string(data)
}
