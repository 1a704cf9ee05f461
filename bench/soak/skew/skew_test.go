package skew

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// The test's own program prints the time on request.
func TestMain(m *testing.M) {
	if os.Getenv("TELL_THE_TIME") != "" {
		now := time.Now()
		time.Sleep(50 * time.Millisecond)
		fmt.Println(now.Unix(), time.Since(now).Milliseconds(), time.Now().Round(0).Sub(now.Round(0)).Milliseconds())
		return
	}
	os.Exit(m.Run())
}

// The wall clock is wrong by so much, and what passes is not.
func TestStart(t *testing.T) {
	runtime.LockOSThread()
	for _, offset := range []time.Duration{0, -3 * time.Minute, 7 * time.Minute} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "TELL_THE_TIME=1")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		before := time.Now().Add(offset).Unix()
		if err := Start(cmd, offset); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		var unix, monotonic, wall int64
		if _, err := fmt.Sscan(out.String(), &unix, &monotonic, &wall); err != nil {
			t.Fatal(err)
		}
		if unix < before || unix > time.Now().Add(offset).Unix() || monotonic < 50 || wall < 49 || monotonic > 60_000 || wall > 60_000 {
			t.Errorf("offset %v: %d, %d ms, %d ms by the wall clock; want %d or a little more", offset, unix, monotonic, wall, before)
		}
	}
}
