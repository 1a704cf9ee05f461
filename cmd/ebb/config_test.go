package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestConfigExamples: what the help shows runs.
func TestConfigExamples(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"agent.yaml": "mode: enforce\nruntime: {socket: \"/a\\e[31m\"}\n", "mode.yaml": "mode: enforce\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for line := range strings.Lines(configCheckExamples) {
		_, call, found := strings.Cut(line, "ebb config check")
		if !found {
			continue
		}
		ran++
		var out bytes.Buffer
		cmd := command(&out, &out)
		cmd.SetIn(strings.NewReader("pods: {source: apiserver}\n"))
		cmd.SetArgs(append([]string{"config", "check"}, strings.Fields(call)...))
		if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.HasPrefix(out.String(), "ok: a configuration of ebb-") || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: %v\n%s", call, err, &out)
		}
	}
	if ran != 3 {
		t.Errorf("%d examples ran", ran)
	}
}

func TestConfigCheck(t *testing.T) {
	for _, c := range []struct {
		args, text string
		want       []string // of the error; nil: it is right
	}{
		{"config check -", "exclude: {}\n", nil},
		{"config check -", "mode: maybe\nimages: {keep: 7, \"hi\\e[31m\": 1}\n", []string{"configuration -:", "mode:", "images.keep:", `images.hi\u001b[31m:`}},
		{"config check -", "mode: enforce\n", []string{"--kind"}},
		{"config check - --kind pod", "mode: enforce\n", []string{"pod"}},
		{"config check - -o xml", "", []string{"--output", "xml"}},
		{"config check -", strings.Repeat("#", maxConfig+1), []string{"more than"}},
		{"config check /nowhere", "", []string{"/nowhere"}},
		{"config check", "", []string{"arg"}},
	} {
		var out bytes.Buffer
		cmd := command(&out, &out)
		cmd.SetIn(strings.NewReader(c.text))
		cmd.SetArgs(strings.Fields(c.args))
		err := cmd.ExecuteContext(t.Context())
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", c.args, err)
		}
		for _, want := range c.want {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", c.args, err, want)
			}
		}
	}
	var out bytes.Buffer
	cmd := command(&out, &out)
	cmd.SetIn(strings.NewReader("images: {keep: [a]}"))
	cmd.SetArgs([]string{"config", "check", "-", "-o", "json"})
	err := cmd.ExecuteContext(t.Context())
	var verdict struct {
		Kind    string
		Differs []struct{ Field string }
	}
	if err != nil || json.Unmarshal(out.Bytes(), &verdict) != nil || verdict.Kind != "agent" || len(verdict.Differs) != 1 || verdict.Differs[0].Field != "images.keep" {
		t.Errorf("%v\n%s", err, &out)
	}
}

// TestVisibleWriter: a letter that comes in pieces stays one, what a terminal obeys does not.
func TestVisibleWriter(t *testing.T) {
	var out bytes.Buffer
	w := &visibleWriter{w: &out}
	for _, b := range []byte("ü\x1b[31m\nend\u202e") {
		if n, err := w.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := w.Close(); err != nil || out.String() != "ü\\u001b[31m\nend\\u202e" {
		t.Errorf("%v, %q", err, &out)
	}
}
