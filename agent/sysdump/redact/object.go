package redact

import (
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Object removes secrets from a value that was decoded from JSON or YAML. It works in place where
// it can, and returns the result.
func Object(v any, counts Counts) any {
	switch v := v.(type) {
	case map[string]any:
		return mapping(v, counts)
	case []any:
		for i := range v {
			if i > 0 && isFlag(v[i-1]) {
				v[i] = scalar(v[i], counts)
			}
			v[i] = Object(v[i], counts)
		}
	case string:
		if strings.Contains(v, "\n") { // a document in a document
			return lines(v, counts)
		}
		return Text(v, counts)
	}
	return v
}

func mapping(m map[string]any, counts Counts) map[string]any {
	if name, ok := m["name"].(string); ok && Sensitive(name) && m["value"] != nil {
		m["value"] = all(m["value"], counts)
	}
	for key, inner := range m {
		if Sensitive(key) {
			inner = listed(inner, counts)
		}
		inner = Object(inner, counts)
		if clean := Text(key, counts); clean != key {
			delete(m, key)
			key = clean
		}
		m[key] = inner
	}
	return m
}

// isFlag reports whether an argument of a command line is a flag whose value is a secret and is the
// next argument.
func isFlag(v any) bool {
	s, ok := v.(string)
	return ok && strings.HasPrefix(s, "-") && !strings.Contains(s, "=") && Sensitive(s)
}

// listed masks a value, or each value of a list. It leaves a mapping as it is, because its own keys
// decide: a secretKeyRef has a name.
func listed(v any, counts Counts) any {
	if list, ok := v.([]any); ok {
		for i := range list {
			list[i] = listed(list[i], counts)
		}
		return list
	}
	return scalar(v, counts)
}

// all masks a value, also a whole mapping or list.
func all(v any, counts Counts) any {
	switch v.(type) {
	case map[string]any, []any:
		counts[Value]++
		return Mask
	}
	return scalar(v, counts)
}

// scalar masks a text or a number. It leaves other values, and empty texts.
func scalar(v any, counts Counts) any {
	switch v := v.(type) {
	case nil, bool, map[string]any, []any:
		return v
	case string:
		if v == "" || v == Mask {
			return v
		}
	}
	counts[Value]++
	return Mask
}

// YAML removes secrets from a document, and its comments with them. If data is not a YAML mapping
// or list, YAML masks the rest of each line after a secret's key, and removes the lines below that
// are indented further.
func YAML(data []byte, counts Counts) []byte {
	var doc any
	exact := func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d }
	if err := yaml.UnmarshalStrict(data, &doc, exact); err == nil {
		switch doc.(type) {
		case map[string]any, []any:
			if clean, err := yaml.Marshal(Object(doc, counts)); err == nil {
				return clean
			}
		}
	}
	return fmt.Appendf(nil, "# no YAML of keys and values\n%s", lines(string(data), counts))
}

func lines(s string, counts Counts) string {
	var b strings.Builder
	below := -1 // indentation of the key whose value continues; -1: none does
	for line := range strings.Lines(s) {
		text := strings.TrimLeft(line, " \t")
		indent := len(line) - len(text)
		if below >= 0 && (indent > below || strings.TrimSpace(text) == "") {
			continue
		}
		below = -1
		if at := key.FindStringSubmatchIndex(line); at != nil && Sensitive(line[at[4]:at[5]]) && strings.TrimSpace(line[at[6]:at[7]]) != "" {
			counts[Value]++
			b.WriteString(line[:at[7]] + Mask + "\n")
			below = indent
			continue
		}
		b.WriteString(line)
	}
	return Text(b.String(), counts)
}
