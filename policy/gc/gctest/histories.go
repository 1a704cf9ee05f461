package gctest

import (
	"testing"

	"pgregory.net/rapid"
)

// Histories checks ten times as many histories as rapid does by default. Few of them delete
// anything, and each takes milliseconds.
func Histories(t *testing.T, history func(*rapid.T)) {
	for range 10 {
		rapid.Check(t, history)
	}
}
