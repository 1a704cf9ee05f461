//go:build race

package e2e

// buildFlags makes the agent's binary check for races if the test does.
var buildFlags = []string{"-race"}
