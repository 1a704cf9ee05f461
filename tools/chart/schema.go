package chart

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// schema is a JSON Schema, or a part of one.
type schema = map[string]any

// Schema returns the values.schema.json of values. It refuses keys that values.yaml
// does not have.
func Schema(values []Value) ([]byte, error) {
	s := objectSchema(values)
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["title"] = "Values of the chart ebb"
	// helm adds global to the values of every chart.
	s["properties"].(schema)["global"] = schema{"type": "object", "properties": schema{"imageRegistry": text}}
	data, err := json.MarshalIndent(s, "", "  ")
	return append(data, '\n'), err
}

func objectSchema(values []Value) schema {
	properties := make(schema)
	for _, v := range values {
		name := v.Path[strings.LastIndexByte(v.Path, '.')+1:]
		if v.Fields != nil {
			properties[name] = objectSchema(v.Fields)
			continue
		}
		s := maps.Clone(constraints[v.Path])
		if s == nil {
			s = schema{"type": typeOf(v.Default)}
		}
		s["description"] = v.Doc
		properties[name] = s
	}
	return closed(properties)
}

// closed is the schema of an object with these properties and no others.
func closed(properties schema, required ...string) schema {
	s := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		slices.Sort(required)
		s["required"] = required
	}
	return s
}

func typeOf(v any) string {
	switch v.(type) {
	case bool:
		return "boolean"
	case int:
		return "integer"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "string"
}
