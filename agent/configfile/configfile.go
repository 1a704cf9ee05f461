// Package configfile reads the YAML configurations of ebb's programs. It is strict: unknown fields and values
// of a wrong type are errors. A plain strict decoder stops at the first problem. This one finds all, and names
// the path of each field: it walks the document beside the struct.
package configfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// MaxBytes is the largest file that Load reads. A real configuration has one or two kilobytes.
const MaxBytes = 1 << 20

// Load reads the file at path and passes it to parse.
func Load[C any](path string, parse func(data []byte) (C, error)) (c C, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > MaxBytes {
		return c, fmt.Errorf("read configuration: %s: not a regular file of at most %d bytes", path, MaxBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read configuration: %w", err)
	}
	if c, err = parse(data); err != nil {
		var none C
		return none, fmt.Errorf("configuration %s:\n%w", path, err)
	}
	return c, nil
}

// Decode stores data over the defaults in config, which is a pointer to a struct. An empty document leaves them
// as they are. Then it calls problems for what is wrong with the values. bad has the paths of fields that could
// not be read, and are not to be reported twice. The error joins all problems.
func Decode(data []byte, config any, problems func(bad map[string]bool) []error) error {
	asJSON, err := yaml.YAMLToJSONStrict(data) // refuses duplicate keys
	if err != nil {
		return fmt.Errorf("not valid YAML: %w", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(asJSON)))
	dec.UseNumber()
	var doc any
	if err := dec.Decode(&doc); err != nil {
		return fmt.Errorf("not valid YAML: %w", err)
	}
	w := walker{bad: make(map[string]bool)}
	if doc != nil {
		w.value("", doc, reflect.ValueOf(config).Elem())
	}
	return errors.Join(append(w.errs, problems(w.bad)...)...)
}

// Duration is a time.Duration written as Go and Kubernetes write it: "12h45m".
type Duration time.Duration

// String formats the duration without zero units: "5m", not "5m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// walker stores a decoded document in a struct and collects what does not fit.
type walker struct {
	errs []error
	bad  map[string]bool
}

func (w *walker) fail(path, format string, args ...any) {
	w.bad[path] = true
	if path == "" {
		path = "(whole file)"
	}
	w.errs = append(w.errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

var durationType = reflect.TypeFor[Duration]()

func (w *walker) value(path string, in any, out reflect.Value) {
	if out.Type() == durationType {
		w.duration(path, in, out)
		return
	}
	if out.Kind() == reflect.Struct {
		w.object(path, in, out)
		return
	}
	if out.Kind() == reflect.Slice {
		w.list(path, in, out)
		return
	}
	if want := scalar(in, out); want != "" {
		w.fail(path, "want %s, got %s", want, describe(in))
	}
}

// scalar stores a value that is neither a mapping nor a list. If it is of a wrong type, it returns what is
// wanted.
func scalar(in any, out reflect.Value) (want string) {
	if u, ok := out.Addr().Interface().(json.Unmarshaler); ok && in != nil {
		if data, err := json.Marshal(in); err == nil && u.UnmarshalJSON(data) == nil {
			return ""
		}
	}
	n, _ := in.(json.Number)
	switch out.Kind() {
	case reflect.String:
		if s, ok := in.(string); ok {
			out.SetString(s)
			return ""
		}
		return "a string"
	case reflect.Bool:
		if b, ok := in.(bool); ok {
			out.SetBool(b)
			return ""
		}
		return "true or false"
	case reflect.Int:
		if i, err := n.Int64(); err == nil && i >= math.MinInt32 && i <= math.MaxInt32 {
			out.SetInt(i)
			return ""
		}
		return "a whole number"
	case reflect.Float64:
		if f, err := n.Float64(); err == nil {
			out.SetFloat(f)
			return ""
		}
		return "a number"
	}
	panic("configfile: field of an unknown type: " + out.Type().String())
}

func (w *walker) object(path string, in any, out reflect.Value) {
	m, ok := in.(map[string]any)
	if !ok {
		w.fail(path, "want a mapping, got %s", describe(in))
		return
	}
	names := make([]string, out.NumField())
	for i := range names {
		names[i] = out.Type().Field(i).Tag.Get("json")
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		at := strings.TrimPrefix(path+"."+k, ".")
		if i := slices.Index(names, k); i >= 0 {
			w.value(at, m[k], out.Field(i))
			continue
		}
		w.fail(at, "unknown field (known here: %s)", strings.Join(names, ", "))
	}
}

// list replaces the default.
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

// duration accepts 0 without a unit. Other numbers have no meaning without one.
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
