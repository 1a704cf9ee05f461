package config

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Print writes c as YAML with each field's documentation above it. Parse reads the output back to
// c.
func Print(w io.Writer, c Config) error {
	var b strings.Builder
	b.WriteString("# Configuration of ebb-agent. Every field is optional; these are the defaults.\n")
	printStruct(&b, "", reflect.ValueOf(c))
	_, err := io.WriteString(w, b.String())
	return err
}

func printStruct(b *strings.Builder, indent string, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		for _, line := range wrap(f.Tag.Get("doc"), 96-len(indent)) {
			fmt.Fprintf(b, "%s# %s\n", indent, line)
		}
		name := f.Tag.Get("json")
		if f.Type.Kind() == reflect.Struct {
			fmt.Fprintf(b, "%s%s:\n", indent, name)
			printStruct(b, indent+"  ", v.Field(i))
			continue
		}
		fmt.Fprintf(b, "%s%s: %s\n", indent, name, scalar(v.Field(i)))
	}
}

// scalar formats one value as JSON, which is YAML, too. Durations are text.
func scalar(v reflect.Value) string {
	if d, ok := v.Interface().(Duration); ok {
		return d.String()
	}
	out, err := json.Marshal(v.Interface())
	if err != nil {
		panic("config: " + err.Error()) // strings, numbers, booleans and lists of strings always marshal
	}
	return string(out)
}

func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
