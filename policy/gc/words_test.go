package gc

import (
	"fmt"
	"testing"
	"unsafe"
)

func TestWords(t *testing.T) {
	var w Words
	batch := "default/web"
	one, two := w.Of(batch[:7]), w.Of("default")
	if one != "default" || unsafe.StringData(one) != unsafe.StringData(two) || unsafe.StringData(one) == unsafe.StringData(batch) {
		t.Errorf("%q and %q have no memory of their own in common", one, two)
	}
	for n := range 3 * mostWords {
		if name := fmt.Sprint("run-", n); w.Of(name) != name {
			t.Fatalf("%s is another name", name)
		}
	}
	if len(w) > mostWords {
		t.Errorf("%d names are remembered", len(w))
	}
}
