package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
)

const (
	// maxText bounds a value that is shown: a path, a threshold.
	maxText = 4096
	// maxEntries bounds a map of thresholds. There are nine signals.
	maxEntries = 1000
)

// layer is a setting, or a map of settings. Files and flags are applied to it one after the other.
type layer interface {
	// layJSON applies a field of a document. null resets a value to its default, otherwise, and
	// empties a map.
	layJSON(raw json.RawMessage, from string, otherwise layer) error
	layText(text, from string) error // in the format of a flag
	list(name string) []Setting
	// take replaces what the files say by what the kubelet reports, and returns the differences.
	take(name string, asked layer) []string
}

// Value is a setting and where it is set: a file, a flag, /configz, or [FromDefault].
type Value[T comparable] struct {
	V    T
	From string
}

// layJSON treats a zero that is no number as "not set" if the setting has a default, as the kubelet
// does: its defaulting cannot tell the two apart.
func (v *Value[T]) layJSON(raw json.RawMessage, from string, otherwise layer) error {
	usual, zero := *otherwise.(*Value[T]), *new(T)
	next := Value[T]{From: from}
	if err := next.decode(raw); err != nil {
		return err
	}
	_, isNumber := any(zero).(int)
	if string(raw) == "null" || !isNumber && next.V == zero && usual.V != zero {
		next = usual
	}
	*v = next
	return nil
}

func (v *Value[T]) decode(raw json.RawMessage) (err error) {
	if len(raw) > maxText {
		return fmt.Errorf("longer than %d bytes", maxText)
	}
	switch p := any(&v.V).(type) {
	case *int:
		var n int32
		err = json.Unmarshal(raw, &n)
		*p = int(n)
	case *time.Duration:
		var text *string
		if err = json.Unmarshal(raw, &text); err == nil && text != nil {
			*p, err = time.ParseDuration(*text)
		}
	default:
		err = json.Unmarshal(raw, p)
	}
	return err
}

func (v *Value[T]) layText(text, from string) (err error) {
	next := Value[T]{From: from}
	if len(text) > maxText {
		return fmt.Errorf("longer than %d bytes", maxText)
	}
	switch p := any(&next.V).(type) {
	case *int:
		var n int64
		n, err = strconv.ParseInt(text, 0, 32) // as pflag: 0x64 is a number, too
		*p = int(n)
	case *time.Duration:
		*p, err = time.ParseDuration(text)
	case *string:
		*p = text
	}
	if err == nil {
		*v = next
	}
	return err
}

func (v *Value[T]) list(name string) []Setting {
	text := fmt.Sprint(v.V)
	if d, ok := any(v.V).(time.Duration); ok {
		text = config.Duration(d).String()
	}
	if text == "" {
		return nil
	}
	return []Setting{{name, text, v.From}}
}

func (v *Value[T]) take(name string, asked layer) []string {
	files := *v
	if answer := *asked.(*Value[T]); answer.V != files.V {
		*v = answer
		return []string{fmt.Sprintf(differs, name, answer.V, files.V)}
	}
	return nil
}

// Thresholds are eviction thresholds by signal.
type Thresholds map[string]Value[string]

// layJSON applies a map key by key. A null removes its key. A null instead of the map removes all
// keys.
func (m Thresholds) layJSON(raw json.RawMessage, from string, _ layer) error {
	if string(raw) == "null" {
		clear(m)
		return nil
	}
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(raw, &changes); err != nil {
		return err
	}
	for name, raw := range changes {
		if string(raw) == "null" {
			delete(m, name)
			continue
		}
		v := Value[string]{From: from}
		err := v.decode(raw)
		if err := m.put(name, v, err); err != nil {
			return err
		}
	}
	return nil
}

// put stores a value, unless it could not be read or there are too many.
func (m Thresholds) put(name string, v Value[string], err error) error {
	if err == nil && len(m) >= maxEntries {
		err = fmt.Errorf("more than %d entries", maxEntries)
	}
	if err == nil {
		m[name] = v
	}
	return err
}

// layText adds "signal<quantity,…".
func (m Thresholds) layText(text, from string) error {
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "<")
		if !ok {
			return errors.New(`want "signal<quantity"`)
		}
		var v Value[string]
		err := v.layText(strings.TrimSpace(value), from)
		if err := m.put(strings.TrimSpace(name), v, err); err != nil {
			return err
		}
	}
	return nil
}

func (m Thresholds) list(name string) (list []Setting) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		v := m[key]
		list = append(list, v.list(name+"."+key)...)
	}
	return list
}

func (m Thresholds) take(name string, asked layer) (differences []string) {
	answer := asked.(Thresholds)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if _, there := answer[key]; !there {
			differences = append(differences, fmt.Sprintf(differs, name+" "+key, "not set", m[key].V))
			delete(m, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(answer)) {
		v, there := m[key]
		switch {
		case !there:
			differences = append(differences, fmt.Sprintf(differs, name+" "+key, answer[key].V, "unset"))
		case v.V != answer[key].V:
			differences = append(differences, fmt.Sprintf(differs, name+" "+key, answer[key].V, v.V))
		default:
			continue
		}
		m[key] = answer[key]
	}
	return differences
}
