// Package dice makes random choices in tests reproducible.
package dice

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// SeedEnv is the environment variable with the seed to use, as a failed test has printed it.
// Property tests use the same one. 0, or no value, means a new seed.
const SeedEnv = "RAPID_SEED"

// New returns a generator and logs its seed, which a failed test prints, as does -v. The
// generator is not safe for concurrent use: make one per goroutine.
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

// Below returns a random duration in [0, most).
func Below(r *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(r.Int64N(int64(most)))
}
