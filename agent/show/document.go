package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"sigs.k8s.io/yaml"
)

// Format is the format number of documents. It increases when a field changes its meaning.
const Format = 1

// Document is the output of -o json and -o yaml. Each node has its name and either the fields of
// its page or an error.
type Document struct {
	Format int              `json:"format"`
	Nodes  []map[string]any `json:"nodes"`
}

// NewDocument makes a document of pages. Each page must marshal to a JSON object.
func NewDocument[P any](nodes []Node[P]) (Document, error) {
	d := Document{Format: Format, Nodes: make([]map[string]any, 0, len(nodes))}
	for _, n := range nodes {
		one := map[string]any{}
		if n.Err != nil {
			one["error"] = n.Err.Error()
		} else if err := fieldsOf(n.Page, one); err != nil {
			return d, fmt.Errorf("node %s: %w", n.Name, err)
		}
		one["node"] = n.Name
		d.Nodes = append(d.Nodes, one)
	}
	return d, nil
}

// fieldsOf adds the fields of a page to a map. Their values stay raw JSON, which keeps the order of
// inner fields and the digits of numbers.
func fieldsOf(page any, into map[string]any) error {
	data, err := json.Marshal(page)
	if err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	for name, value := range fields {
		into[name] = value
	}
	return nil
}

// WriteJSON writes a document. It escapes characters that are not printable.
func WriteJSON(w io.Writer, document any) error {
	s, err := toJSON(document)
	if err == nil {
		_, err = io.WriteString(w, s)
	}
	return err
}

func toJSON(document any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	err := enc.Encode(document)
	return replace(b.String(), func(to *strings.Builder, r rune) {
		if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
			fmt.Fprintf(to, `\u%04x\u%04x`, high, low)
			return
		}
		fmt.Fprintf(to, `\u%04x`, r)
	}), err
}

// WriteYAML writes a document. It replaces characters that are not printable by U+FFFD.
func WriteYAML(w io.Writer, document any) error {
	s, err := toJSON(document)
	if err != nil {
		return err
	}
	data, err := yaml.JSONToYAML([]byte(s)) // it refuses control characters that are not escaped
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, replace(string(data), func(to *strings.Builder, _ rune) { to.WriteRune(unicode.ReplacementChar) }))
	return err
}

// replace copies a text. For each character that is not printable, except newlines, other writes a
// substitute. In JSON such characters occur only in strings.
func replace(s string, other func(*strings.Builder, rune)) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) || r == '\n' {
			b.WriteRune(r)
		} else {
			other(&b, r)
		}
	}
	return b.String()
}

// WriteNames writes names, one a line, each once.
func WriteNames(w io.Writer, names []string) error {
	var b strings.Builder
	seen := make(map[string]bool)
	for _, n := range names {
		if n = Clean(n); n != "" && !seen[n] {
			seen[n] = true
			b.WriteString(n + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// NodeNames returns the names of the nodes that answered, in kubectl's form: node/NAME.
func NodeNames[P any](nodes []Node[P]) (names []string) {
	for _, n := range answered(nodes) {
		names = append(names, "node/"+n.Name)
	}
	return names
}
