package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// maxFileBytes bounds what is read as a configuration. A real one has one or
// two kilobytes.
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
//
// A plain strict decoder stops at the first problem of its kind. Parse finds all of them: it walks
// the document beside the struct.
func Parse(data []byte) (Config, error) {
	c := Default()
	asJSON, err := yaml.YAMLToJSONStrict(data) // refuses duplicate keys
	if err != nil {
		return Config{}, fmt.Errorf("not valid YAML: %w", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(asJSON)))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return Config{}, fmt.Errorf("not valid YAML: %w", err)
	}
	var w walker
	if doc != nil { // an empty file is all defaults
		w.value("", doc, reflect.ValueOf(&c).Elem())
	}
	// Valid fields are still checked if others could not be read.
	w.errs = append(w.errs, c.problems(w.bad)...)
	if len(w.errs) > 0 {
		return Config{}, errors.Join(w.errs...)
	}
	return c, nil
}

// walker stores a decoded document in a struct and collects what does not fit.
type walker struct {
	errs []error
	bad  map[string]bool // fields of a wrong type, which are not reported twice
}

func (w *walker) fail(path, format string, args ...any) {
	if w.bad == nil {
		w.bad = make(map[string]bool)
	}
	w.bad[path] = true
	w.errs = append(w.errs, fmt.Errorf("%s: %s", orRoot(path), fmt.Sprintf(format, args...)))
}

func orRoot(path string) string {
	if path == "" {
		return "(whole file)"
	}
	return path
}

var durationType = reflect.TypeFor[Duration]()

func (w *walker) value(path string, in any, out reflect.Value) {
	switch {
	case out.Type() == durationType:
		w.duration(path, in, out)
	case out.Kind() == reflect.Struct:
		w.object(path, in, out)
	case out.Kind() == reflect.String:
		if s, ok := in.(string); ok {
			out.SetString(s)
			return
		}
		w.fail(path, "want a string, got %s", describe(in))
	case out.Kind() == reflect.Bool:
		if b, ok := in.(bool); ok {
			out.SetBool(b)
			return
		}
		w.fail(path, "want true or false, got %s", describe(in))
	case out.Kind() == reflect.Int:
		n, ok := in.(json.Number)
		if i, err := n.Int64(); ok && err == nil && i >= math.MinInt32 && i <= math.MaxInt32 {
			out.SetInt(i)
			return
		}
		w.fail(path, "want a whole number, got %s", describe(in))
	case out.Kind() == reflect.Slice:
		w.list(path, in, out)
	default:
		panic("config: field of an unknown type: " + out.Type().String())
	}
}

func (w *walker) object(path string, in any, out reflect.Value) {
	m, ok := in.(map[string]any)
	if !ok {
		w.fail(path, "want a mapping, got %s", describe(in))
		return
	}
	names := make([]string, out.NumField())
	fields := make(map[string]reflect.Value, out.NumField())
	for i := range out.NumField() {
		names[i] = out.Type().Field(i).Tag.Get("json")
		fields[names[i]] = out.Field(i)
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		at := strings.TrimPrefix(path+"."+k, ".")
		if f, ok := fields[k]; ok {
			w.value(at, m[k], f)
			continue
		}
		w.fail(at, "unknown field (known here: %s)", strings.Join(names, ", "))
	}
}

func (w *walker) list(path string, in any, out reflect.Value) {
	items, ok := in.([]any)
	if !ok {
		w.fail(path, "want a list, got %s", describe(in))
		return
	}
	list := reflect.MakeSlice(out.Type(), len(items), len(items))
	for i, item := range items {
		w.value(fmt.Sprintf("%s[%d]", path, i), item, list.Index(i))
	}
	out.Set(list)
}

func (w *walker) duration(path string, in any, out reflect.Value) {
	s, ok := in.(string)
	if n, isNumber := in.(json.Number); isNumber && n == "0" {
		s, ok = "0s", true
	}
	d, err := time.ParseDuration(s)
	if !ok || err != nil {
		w.fail(path, `want a duration such as "90s" or "12h45m", got %s`, describe(in))
		return
	}
	out.SetInt(int64(d))
}

// describe formats a value of the user's file for an error. It cuts long strings.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		if len(v) > 60 {
			v = v[:60] + "…"
		}
		return fmt.Sprintf("the string %q", v)
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	default:
		return fmt.Sprint(v)
	}
}

// short formats a duration without zero units.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
