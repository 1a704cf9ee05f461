package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-agent/ebb/agent/node/config"
)

func TestHelpTeaches(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), []string{"--help"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--config", "ebb-agent config default", "ebb-agent unload", "mode: enforce", "ebb why", "ebb images --socket"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("--help does not mention %q", want)
		}
	}
}

func TestPrintedDefaultsAreTheDefaults(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), []string{"config", "default"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := config.Print(&again, c); err != nil || again.String() != out.String() {
		t.Errorf("error %v; read back and printed:\n%s", err, again.String())
	}
}

func TestBadUse(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(bad, []byte("mode: maybe\nimages: {keep: 7, hihg: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--config", bad}, []string{bad, "mode:", "images.keep:", "images.hihg: unknown field"}},
		{[]string{"--config", "/nowhere"}, []string{"/nowhere"}},
		{[]string{"serve"}, []string{"serve"}},
		{[]string{"--root", "/host"}, []string{"--root"}},
		{[]string{"report", "--keep-state"}, []string{"--keep-state"}},
		{[]string{"--stay"}, []string{"--stay"}},
		{[]string{"unload", "--root", "/nowhere"}, []string{"enter /nowhere"}},
		{[]string{"unload", "now"}, []string{"now"}},
		{[]string{"report", "--config", bad}, []string{bad, "mode:"}},
		{[]string{"config", "defaults"}, []string{"defaults"}},
		{[]string{"--colour"}, []string{"--colour"}},
	} {
		var out bytes.Buffer
		err := run(context.Background(), c.args, &out, &out)
		if err == nil {
			t.Errorf("%q was accepted", c.args)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: the error does not say %q:\n%v", c.args, want, err)
			}
		}
	}
}

// TestStay: nothing is removed, not even looked for, until somebody wants it to end.
func TestStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begun := time.Now()
		var out bytes.Buffer
		if err := run(ctx, []string{"unload", "--root=/nowhere", "--stay"}, &out, &out); err != nil || out.Len() > 0 || time.Since(begun) != time.Hour {
			t.Errorf("after %s: %v: %s", time.Since(begun), err, out.String())
		}
	})
}
