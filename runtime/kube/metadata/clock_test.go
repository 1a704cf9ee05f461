package metadata

import (
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
)

// TestClock: the time is never ahead of the slowest clock that was heard of late, and
// with one clock at most a second behind it.
func TestClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Now()
		skew := time.Duration(rapid.Int64Range(-1e13, 1e13).Draw(t, "skew"))
		var c clock
		if _, ok := c.at(start); ok {
			t.Fatal("known without an answer")
		}
		now := start
		for range rapid.IntRange(1, 50).Draw(t, "answers") {
			now = now.Add(time.Duration(rapid.Int64Range(0, 2e10).Draw(t, "pause")))
			took := time.Duration(rapid.Int64Range(0, 5e9).Draw(t, "took"))
			back := time.Duration(rapid.Int64Range(0, int64(took)).Draw(t, "on its way back"))
			c.sample(now.Add(-took), now, now.Add(skew-back).Round(0).Truncate(time.Second))
			got, ok := c.at(now)
			if late := now.Add(skew).Sub(got); !ok || late < 0 || late > time.Second+back {
				t.Fatalf("%v late", late)
			}
		}
	})
}

// TestManyAnswers: the more answers there are, the nearer it comes, however slow some are.
func TestManyAnswers(t *testing.T) {
	var c clock
	now := time.Now()
	for n := range 100 {
		took := time.Duration(n%10) * 400 * time.Millisecond
		c.sample(now.Add(-took), now, now.Add(-took/2).Truncate(time.Second))
		now = now.Add(137 * time.Millisecond)
	}
	if got, _ := c.at(now); now.Sub(got) > 150*time.Millisecond || got.After(now) {
		t.Errorf("%v late", now.Sub(got))
	}
}

// TestClocksDiffer: of several clocks the slowest counts, as long as it was heard in the
// last minutes.
func TestClocksDiffer(t *testing.T) {
	var c clock
	start := time.Now()
	hours := []time.Duration{0, 3 * time.Hour, -2 * time.Hour}
	for n, skew := range hours {
		now := start.Add(time.Duration(n) * time.Second)
		c.sample(now, now, now.Add(skew).Truncate(time.Second))
		want := now.Add(min(0, skew))
		if got, _ := c.at(now); got.After(want) || want.Sub(got) > time.Second {
			t.Errorf("%v early", got.Sub(want))
		}
	}
	// The sick ones are not heard again.
	for n := range 4 {
		now := start.Add(time.Duration(n+1) * 2 * sampleFor)
		c.sample(now, now, now.Truncate(time.Second))
	}
	now := start.Add(8 * sampleFor)
	if got, _ := c.at(now); now.Sub(got) > time.Second || got.After(now) {
		t.Errorf("still %v late", now.Sub(got))
	}
}

// TestClocked: answers to another client's requests give the time, too.
func TestClocked(t *testing.T) {
	date := time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", date.Format(http.TimeFormat))
	}), Options{})
	client, err := rest.HTTPClientFor(c.Clocked(&rest.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(c.base)
	if err != nil {
		t.Fatal(err)
	}
	if now, known := c.Time(time.Now()); !known || now.Sub(date).Abs() > time.Minute {
		t.Errorf("it is %v, known: %v", now, known)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	client.CloseIdleConnections()
}
