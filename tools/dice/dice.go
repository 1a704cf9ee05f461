// Package dice decides in tests where chance does, so that what a test did can be done again.
package dice

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// SeedEnv is the seed to take, as a test has printed it: the one of all properties. 0: a new one.
const SeedEnv = "RAPID_SEED"

// New prints its seed where a test fails, or with -v. Who rolls in several goroutines gives each
// one of its own.
func New(t testing.TB) *rand.Rand {
	t.Helper()
	var seed uint64
	if text := os.Getenv(SeedEnv); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", SeedEnv, err)
		}
	}
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("chance decides: %s=%d", SeedEnv, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Below is a duration below most.
func Below(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}
