package cluster

import (
	"testing"
	"testing/synctest"
	"time"
)

// A loop that takes nothing is quiet from the first question on, however long it was at rest before; asking
// waits for nothing.
func TestQuietLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop()
		time.Sleep(time.Hour)
		began := time.Now()
		if quiet := l.quiet(); quiet > 0 || time.Since(began) > 0 {
			t.Errorf("quiet for %v, after %v", quiet, time.Since(began))
		}
		time.Sleep(time.Minute)
		if quiet := l.quiet(); quiet != time.Minute {
			t.Errorf("quiet for %v, want a minute", quiet)
		}
		in := <-l.inputs
		in.done <- struct{}{}
		synctest.Wait()
		if quiet := l.quiet(); quiet > 0 {
			t.Errorf("quiet for %v after it moved", quiet)
		}
		close(l.ended) // and with it the goroutine that asks
	})
}
