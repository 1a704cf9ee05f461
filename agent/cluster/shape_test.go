package cluster

import (
	"reflect"
	"testing"
)

// TestShape: a new concern is a type or a package of its own, not one more field.
func TestShape(t *testing.T) {
	const most = 15
	if n := reflect.TypeFor[Controller]().NumField(); n > most {
		t.Errorf("Controller has %d fields, more than %d", n, most)
	}
}
