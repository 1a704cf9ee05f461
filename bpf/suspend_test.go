package bpf

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// suspendVariable is set in a machine that is the test's to suspend (tools/vm).
const suspendVariable = "EBB_TEST_SUSPEND"

// asleep is how much further CLOCK_BOOTTIME is than CLOCK_MONOTONIC: all the
// time that the machine was suspended.
func asleep(t testing.TB) time.Duration {
	t.Helper()
	var awake unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now(t)) - time.Duration(awake.Nano())
}

// suspend sends the machine to sleep, has its clock wake it after d, and returns
// how long it slept: d without what falling asleep took, which is seconds on an
// emulated machine that shares its CPU.
func suspend(t testing.TB, d time.Duration) time.Duration {
	t.Helper()
	before := asleep(t)
	const alarm = "/sys/class/rtc/rtc0/wakealarm"
	for _, w := range []struct{ file, text string }{
		{alarm, "0"}, {alarm, fmt.Sprint("+", int(d.Seconds()))}, {"/sys/power/state", "mem"},
	} {
		if err := os.WriteFile(w.file, []byte(w.text), 0o644); err != nil {
			t.Fatalf("write %q to %s: %v", w.text, w.file, err)
		}
	}
	return asleep(t) - before
}

// TestSuspend: stamps and events stay in order over a suspend to memory, and
// the time slept is in them: an image used before is that much older. Programs,
// pins and watermarks are there afterwards, and a container that slept along was in
// use.
func TestSuspend(t *testing.T) {
	if os.Getenv(suspendVariable) == "" {
		t.Skipf("SKIPPED: %s is not set: this machine is not this test's to suspend", suspendVariable)
	}
	p, fs := load(t, Options{}), newExt4(t)
	before, during, after := overlay(t), overlay(t), overlay(t)
	track(t, p, before.key, during.key, after.key)
	free, _ := fs.free(t)
	setWatermark(t, p, fs, Watermark{RaiseFree: free - 1000, RearmFree: free - 1000})
	before.run(t, "true")
	end := during.hold(t)

	// An alarm that goes off while the machine falls asleep wakes it at once, now and
	// whenever it is tried again: ten times as long as that took on a busy machine.
	slept := suspend(t, 30*time.Second)
	if slept < 2*time.Second {
		t.Fatalf("the machine slept %v, want 2s or more", slept)
	}
	woken := now(t)
	end()
	after.run(t, "true")
	first, second, third := lastUse(t, p, before.key), lastUse(t, p, during.key), lastUse(t, p, after.key)
	if first+uint64(slept) > woken || first >= second || second < woken || second >= third || third > now(t) {
		t.Errorf("stamps are %d, %d and %d; awake again at %d after %v", first, second, third, woken, slept)
	}
	fs.take(t, 1100)
	if c := nextCrossing(t, p); c.Dev != fs.dev || c.BootNS < third || c.BootNS > now(t) {
		t.Errorf("crossing is %+v", c)
	}
}
