package redact

import (
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Object takes secrets out of what was decoded from JSON or YAML, in place, and returns it.
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

// isFlag says whether a word of a command line is a flag whose value is the next word, and
// a secret.
func isFlag(v any) bool {
	s, ok := v.(string)
	return ok && strings.HasPrefix(s, "-") && !strings.Contains(s, "=") && Sensitive(s)
}

// listed masks a value, or each in a list. What is in a mapping has keys of its own: a
// secretKeyRef has a name.
func listed(v any, counts Counts) any {
	if list, ok := v.([]any); ok {
		for i := range list {
			list[i] = listed(list[i], counts)
		}
		return list
	}
	return scalar(v, counts)
}

// all masks a value and whatever is in it.
func all(v any, counts Counts) any {
	switch v.(type) {
	case map[string]any, []any:
		counts[Value]++
		return Mask
	}
	return scalar(v, counts)
}

// scalar masks a text or a number.
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

// YAML takes secrets out of a document, and with them its comments. Of what is no YAML,
// lines with the key of a secret go, and those below that are indented further.
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
	below := -1 // indentation of the key whose value goes on
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
