//go:build race

package e2e

import "time"

// buildFlags makes the agent's binary check for races if the test does.
var buildFlags = []string{"-race"}

// busyMost is how long a run may take beside a busy writer; the race detector makes all of it several times slower.
const busyMost = 30 * time.Second

// stopTime is how long an agent may take to end.
const stopTime = 9 * time.Second
