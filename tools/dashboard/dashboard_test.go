package dashboard

import (
	"bytes"
	"os"
	"testing"
)

func TestFileIsGenerated(t *testing.T) {
	want, err := JSON()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../deploy/grafana/ebb.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("deploy/grafana/ebb.json is out of date: make generate")
	}
}
