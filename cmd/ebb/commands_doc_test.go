package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/show/showtest"
	"github.com/ebb-agent/ebb/tools/golden"
)

// example is a command with its output, in docs/command-output.md.
var example = regexp.MustCompile("(?s)```\n\\$ ebb ([^\n]*)\n(.*?)```")

// TestGeneratedCommands: the page of the commands has what they say. -update rewrites it.
func TestGeneratedCommands(t *testing.T) {
	c := newCluster(t, "worker-1", "worker-2")
	c.Tame = true
	clock := now
	now = func() time.Time { return showtest.Now.Add(5 * time.Second) }
	t.Cleanup(func() { now = clock })
	const file = "../../docs/command-output.md"
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]bool{}
	is := example.ReplaceAllStringFunc(string(was), func(block string) string {
		line := example.FindStringSubmatch(block)[1]
		out, errs, code := call(t, nil, line)
		if code != 0 || errs != "" {
			t.Errorf("%s: exit code %d: %s", line, code, errs)
		}
		ran[strings.Fields(line)[0]] = true
		return "```\n$ ebb " + line + "\n" + strings.ReplaceAll(out, "\ufffd[2J", "") + "```"
	})
	golden.Check(t, file, is)
	for _, name := range deskCommands {
		if !ran[name] && name != "top" {
			t.Errorf("%s has no example in %s", name, file)
		}
	}
}
