package conn

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// Jitter is at least half of a pause, and at most all of it: it keeps many from coming
// back at the same moment.
func Jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// RetryAfter is how long a server wants to be left alone, in seconds as Kubernetes says
// it; never longer than most, and 0 if it says nothing.
func RetryAfter(h http.Header, most time.Duration) time.Duration {
	s, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || s <= 0 {
		return 0
	}
	return min(time.Duration(min(s, 3600))*time.Second, most)
}
