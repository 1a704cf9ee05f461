package uninstall

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// countEach is how often a counter prints at most.
const countEach = 10 * time.Second

// counter prints the progress of work that takes long. It is safe for concurrent use.
type counter struct {
	to   io.Writer
	of   int
	what string

	mu      sync.Mutex
	n       int
	printed time.Time
}

func newCounter(to io.Writer, of int, what string) *counter {
	return &counter{to: to, of: of, what: what, printed: time.Now()}
}

// add counts one more.
func (c *counter) add() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; time.Since(c.printed) >= countEach {
		c.printed = time.Now()
		fmt.Fprintf(c.to, "%d of %d %s\n", c.n, c.of, c.what)
	}
}
