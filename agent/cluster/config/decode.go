package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// maxFileBytes bounds what is read as a configuration. A real one has two kilobytes.
const maxFileBytes = 1 << 20

// Load reads the file at path, completes it with defaults and validates it. The error joins every
// problem.
func Load(path string) (Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return Config{}, fmt.Errorf("read configuration: %s: not a regular file of at most %d bytes", path, maxFileBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	c, err := Parse(data)
	if err != nil {
		return Config{}, fmt.Errorf("configuration %s:\n%w", path, err)
	}
	return c, nil
}

// Parse decodes data over the defaults and validates the result.
func Parse(data []byte) (Config, error) {
	c := Default()
	asJSON, err := yaml.YAMLToJSONStrict(data) // refuses duplicate keys
	if err != nil {
		return Config{}, fmt.Errorf("not valid YAML: %w", err)
	}
	r := reader{bad: map[string]bool{}}
	if string(asJSON) != "null" { // an empty file is all defaults
		r.value("", asJSON, reflect.ValueOf(&c).Elem())
	}
	// Valid fields are still checked if others could not be read.
	errs := append(r.errs, c.problems(r.bad)...)
	if len(errs) > 0 {
		return Config{}, errors.Join(errs...)
	}
	return c, nil
}

// reader decodes a document into a struct, mapping by mapping. A plain strict decoder stops at the
// first problem, and does not name its path.
type reader struct {
	errs []error
	bad  map[string]bool // fields that could not be read, which are not reported twice
}

func (r *reader) fail(path, format string, args ...any) {
	r.bad[path] = true
	if path == "" {
		path = "(whole file)"
	}
	r.errs = append(r.errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

func (r *reader) value(path string, data json.RawMessage, out reflect.Value) {
	if out.Kind() == reflect.Slice && out.Type().Elem().Kind() == reflect.Struct {
		r.list(path, data, out)
		return
	}
	if out.Kind() != reflect.Struct {
		if string(data) == "null" {
			r.fail(path, "has no value")
		} else if err := json.Unmarshal(data, out.Addr().Interface()); err != nil {
			r.fail(path, "%v", plain(err))
		}
		return
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil || fields == nil {
		r.fail(path, "want a mapping")
		return
	}
	known := make([]string, out.NumField())
	for i := range known {
		known[i] = out.Type().Field(i).Tag.Get("json")
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		at := strings.TrimPrefix(path+"."+name, ".")
		if i := slices.Index(known, name); i >= 0 {
			r.value(at, fields[name], out.Field(i))
		} else {
			r.fail(at, "unknown field (known here: %s)", strings.Join(known, ", "))
		}
	}
}

// list decodes a list of mappings, which replaces the default.
func (r *reader) list(path string, data json.RawMessage, out reflect.Value) {
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil || items == nil {
		r.fail(path, "want a list of mappings")
		return
	}
	list := reflect.MakeSlice(out.Type(), len(items), len(items))
	for i, item := range items {
		r.value(fmt.Sprintf("%s[%d]", path, i), item, list.Index(i))
	}
	out.Set(list)
}

// plain says in plain words, without Go's types, what a value should have been.
func plain(err error) string {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err.Error()
	}
	want := map[reflect.Kind]string{
		reflect.String: "a string", reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Float64: "a number", reflect.Slice: "a list of strings",
	}[wrong.Type.Kind()]
	return fmt.Sprintf("want %s, got a %s", want, wrong.Value)
}
