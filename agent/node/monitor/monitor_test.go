package monitor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-agent/ebb/agent/node/monitor"
)

// One goroutine at a time is inside, also beside those that go outside in between.
func TestOneIsInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, inside, most := monitor.New(), 0, 0
		work := func() {
			inside++
			most = max(most, inside)
			inside--
		}
		for range 10 {
			go m.Do(func() {
				for range 10 {
					work()
					m.Outside(func() { time.Sleep(time.Millisecond) })
					work()
				}
			})
			go m.DoQuietly(work)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		m.Do(func() {
			if inside != 0 || most != 1 {
				t.Errorf("%d inside now, %d at most", inside, most)
			}
		})
	})
}

// Who goes outside for long keeps nobody waiting.
func TestOutsideGivesItUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, over := monitor.New(), make(chan struct{})
		go m.Do(func() { m.Outside(func() { <-over }) })
		synctest.Wait()
		began := time.Now()
		m.Do(func() {})
		if took := time.Since(began); took != 0 {
			t.Errorf("waited for %v", took)
		}
		close(over)
	})
}

func TestDoWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, over := monitor.New(), make(chan struct{})
		go m.DoQuietly(func() { <-over })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.DoWithin(ctx, func() { t.Error("called") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		close(over)
		called := false
		if err := m.DoWithin(t.Context(), func() { called = true }); err != nil || !called {
			t.Errorf("got %v, called: %v", err, called)
		}
	})
}

// However often it was left, there is one word; DoQuietly has none.
func TestLeft(t *testing.T) {
	m := monitor.New()
	words := func() (n int) {
		for {
			select {
			case <-m.Left():
				n++
			default:
				return n
			}
		}
	}
	m.DoQuietly(func() {})
	if n := words(); n != 0 {
		t.Errorf("%d words after nothing", n)
	}
	m.Do(func() { m.Outside(func() {}) })
	if n := words(); n != 1 {
		t.Errorf("%d words", n)
	}
}

// TestLongest: the longest call of DoQuietly counts, with its wait for the lock, and no other call does.
func TestLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := monitor.New()
		m.DoQuietly(func() { time.Sleep(time.Millisecond) })
		go m.Do(func() { time.Sleep(3 * time.Millisecond) })
		synctest.Wait()
		m.DoQuietly(func() { time.Sleep(2 * time.Millisecond) })
		m.Do(func() { time.Sleep(time.Second) })
		m.DoQuietly(func() {})
		if got := m.Longest(); got != 5*time.Millisecond {
			t.Errorf("longest: %v", got)
		}
	})
}
