package chart

import (
	"reflect"
	"strings"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/configfile"
	nodeconfig "github.com/ebb-agent/ebb/agent/node/config"
)

// nodeSchema returns the schema of agent.config: the fields of ebb-agent's
// configuration without those that have chart values of their own.
func nodeSchema(c nodeconfig.Config) schema {
	s := structSchema(reflect.ValueOf(c))
	drop(s, "mode", "server")
	return s
}

// clusterSchema returns the schema of controller.config: the fields of ebb-controller's
// configuration without those that have chart values of their own.
func clusterSchema(c config.Config) schema {
	s := structSchema(reflect.ValueOf(c))
	drop(s, "mode")
	drop(s["properties"].(schema)["server"].(schema), "address", "healthAddress", "webConfigFile")
	drop(s["properties"].(schema)["leaderElection"].(schema), "namespace", "name")
	return s
}

func drop(s schema, names ...string) {
	for _, name := range names {
		delete(s["properties"].(schema), name)
	}
}

// enums are the schemas of fields that take one of a few words, by field name. A name
// means the same in both configurations.
var enums = map[string]schema{
	"level":     oneOf("debug", "info", "warn", "error"),
	"format":    oneOf("json", "text"),
	"ageFrom":   oneOf(nodeconfig.AgeFromCreation, nodeconfig.AgeFromTermination),
	"source":    oneOf(nodeconfig.PodsFromKubelet, nodeconfig.PodsFromAPIServer, nodeconfig.PodsFromNobody),
	"layerHeat": oneOf(nodeconfig.HeatAuto, nodeconfig.HeatReads, nodeconfig.HeatOff),
}

func structSchema(v reflect.Value) schema {
	properties := make(schema)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		s := fieldSchema(name, v.Field(i))
		if doc := f.Tag.Get("doc"); doc != "" {
			s["description"] = doc
		}
		properties[name] = s
	}
	return closed(properties)
}

func fieldSchema(name string, v reflect.Value) schema {
	switch v.Interface().(type) {
	case configfile.Duration:
		return matching(`^0$|^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`)
	case nodeconfig.Cap:
		return schema{"type": []any{"integer", "string"}, "minimum": 1, "maximum": 100000, "pattern": "^([1-9][0-9]{0,4}|100000|([1-9][0-9]?|100)%)$"}
	case config.Mode: // of a collector; YAML reads a bare off as a boolean
		return schema{"enum": []any{config.Off, config.Observe, config.Enforce, false}}
	}
	switch v.Kind() {
	case reflect.Struct:
		return structSchema(v)
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int:
		if strings.HasSuffix(name, "Percent") || name == "futileShare" {
			return schema{"type": "integer", "minimum": 0, "maximum": 100}
		}
		return schema{"type": "integer"}
	case reflect.Float64:
		return schema{"type": "number"}
	case reflect.Slice:
		if item := v.Type().Elem(); item.Kind() == reflect.Struct {
			return schema{"type": "array", "items": structSchema(reflect.Zero(item))}
		}
		return schema{"type": "array", "items": schema{"type": "string"}}
	case reflect.String:
		if s, ok := enums[name]; ok {
			return schema{"type": s["type"], "enum": s["enum"]}
		}
		return schema{"type": "string"}
	}
	panic("chart: field " + name + " is of an unknown type: " + v.Type().String())
}
