package extension

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// applyPatch applies a JSON patch (RFC 6902) of the operations test, replace, add and
// remove to a document. A list grows at no other place than its end.
func applyPatch(document any, patch []byte) ([]byte, error) {
	data, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	var root any
	var ops []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &ops); err != nil {
		return nil, fmt.Errorf("no JSON patch: %w", err)
	}
	for _, op := range ops {
		if root, err = edit(root, strings.Split(strings.TrimPrefix(op.Path, "/"), "/"), op.Op, op.Value); err != nil {
			return nil, fmt.Errorf("%s %s: %w", op.Op, op.Path, err)
		}
	}
	return json.Marshal(root)
}

// edit gives a value with what stands at a path changed.
func edit(in any, path []string, op string, value any) (any, error) {
	if len(path) == 0 {
		if op == "test" && !reflect.DeepEqual(in, value) {
			return nil, fmt.Errorf("found %v", in)
		}
		if op == "test" {
			return in, nil
		}
		return value, nil
	}
	key := strings.NewReplacer("~1", "/", "~0", "~").Replace(path[0])
	last := len(path) == 1
	switch in := in.(type) {
	case map[string]any:
		old, found := in[key]
		switch {
		case last && op == "add":
			in[key] = value
			return in, nil
		case !found:
			return nil, fmt.Errorf("%s is not there", key)
		case last && op == "remove":
			delete(in, key)
			return in, nil
		}
		changed, err := edit(old, path[1:], op, value)
		in[key] = changed
		return in, err
	case []any:
		if last && op == "add" && key == "-" {
			return append(in, value), nil
		}
		at, err := strconv.Atoi(key)
		if err != nil || at < 0 || at >= len(in) {
			return nil, fmt.Errorf("no place %s", key)
		}
		if last && op == "remove" {
			return append(in[:at:at], in[at+1:]...), nil
		}
		in[at], err = edit(in[at], path[1:], op, value)
		return in, err
	}
	return nil, fmt.Errorf("%s is not there", key)
}
