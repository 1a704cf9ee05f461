package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestExamplesAreTaken: each command has an example, and each example is a command line that
// its command takes. Tests of the commands run those that a test can run to their end.
func TestExamplesAreTaken(t *testing.T) {
	var all []*cobra.Command
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		all = append(all, c)
		for _, child := range c.Commands() {
			walk(child)
		}
	}
	var out bytes.Buffer
	walk(command(&out, &out))
	for _, c := range all {
		lines := shown(strings.ReplaceAll(c.Example, "\\\n", " "))
		if len(lines) == 0 {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, args := range lines {
			taken := 0
			root := command(&out, &out)
			take(root, &taken)
			root.SetArgs(args)
			if err := root.ExecuteContext(t.Context()); err != nil || taken != 1 && args[0] != "completion" {
				t.Errorf("ebb %s: %v", strings.Join(args, " "), err)
			}
		}
	}
}

// take counts what is run in place of each command.
func take(c *cobra.Command, taken *int) {
	if c.RunE != nil {
		c.RunE = func(*cobra.Command, []string) error { *taken++; return nil }
	}
	for _, child := range c.Commands() {
		take(child, taken)
	}
}
