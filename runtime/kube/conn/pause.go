package conn

import (
	"net/http"
	"strconv"
	"time"
)

// RetryAfter is how long a server wants to be left alone, in seconds as Kubernetes says
// it; never longer than most, and 0 if it says nothing.
func RetryAfter(h http.Header, most time.Duration) time.Duration {
	s, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || s <= 0 {
		return 0
	}
	return min(time.Duration(min(s, 3600))*time.Second, most)
}
