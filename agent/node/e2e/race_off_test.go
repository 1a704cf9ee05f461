//go:build !race

package e2e

import "time"

var buildFlags []string

// busyMost is how long a run may take beside a busy writer.
const busyMost = 2 * time.Second

// stopTime is how long an agent may take to end.
const stopTime = 4 * time.Second
