package gctest

import (
	"flag"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// Histories checks ten times as many histories as rapid does by default. Few of them delete
// anything, and each takes milliseconds. The test must not run in parallel with others.
func Histories(t *testing.T, history func(*rapid.T)) {
	checks := flag.Lookup("rapid.checks").Value
	usual := checks.String()
	n, err := strconv.Atoi(usual)
	if err != nil {
		t.Fatal(err)
	}
	if err := checks.Set(strconv.Itoa(10 * n)); err != nil { // each rapid.Check begins with the same seed
		t.Fatal(err)
	}
	defer func() { _ = checks.Set(usual) }() // what it was is valid
	rapid.Check(t, history)
}
