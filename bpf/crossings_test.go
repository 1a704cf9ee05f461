package bpf

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// nextCrossing waits for one event, as the agent would.
func nextCrossing(t testing.TB, p *Probes) Crossing {
	t.Helper()
	return nextCrossings(t, p, 1)[0]
}

// nextCrossings waits for n events.
func nextCrossings(t testing.TB, p *Probes, n int) (got []Crossing) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, done := make(chan Crossing), make(chan error, 1)
	go func() { done <- p.Crossings(ctx, out) }()
	for len(got) < n {
		select {
		case c := <-out:
			got = append(got, c)
		case err := <-done:
			t.Fatalf("%d crossings of %d: %v", len(got), n, err)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("Crossings ended with %v", err)
	}
	return got
}

// TestFullRingKeepsTheWatermarkArmed: an event that finds no room is counted, and
// sent by the next allocation that finds some.
func TestFullRingKeepsTheWatermarkArmed(t *testing.T) {
	p, fs := load(t, Options{}), newExt4(t)
	blocks, _ := fs.free(t)
	watermark := Watermark{RaiseFree: blocks, RearmFree: blocks}
	sent := 0
	for ; counters(t, p).CrossingsHeld == 0; sent++ {
		if sent > 10000 {
			t.Fatal("the ring buffer never filled")
		}
		setWatermark(t, p, fs, watermark)
		fs.take(t, 1)
	}
	if is, _ := armed(t, p, fs); !is {
		t.Fatal("there was no event, yet the watermark is disarmed")
	}
	nextCrossing(t, p) // makes room
	fs.take(t, 1)
	if is, _ := armed(t, p, fs); is {
		t.Fatal("there is room, yet no event was sent")
	}
}

// TestEventsWaitForTheirReader: raised while nobody reads, even no process.
func TestEventsWaitForTheirReader(t *testing.T) {
	o := Options{PinDir: pinDir(t)}
	p, fs := load(t, o), newExt4(t)
	blocks, _ := fs.free(t)
	setWatermark(t, p, fs, Watermark{RaiseFree: blocks, RearmFree: blocks})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	before := now(t)
	fs.take(t, 1)
	after := now(t)
	p = load(t, o)
	if c := nextCrossing(t, p); c.BootNS < before || c.BootNS > after {
		t.Fatalf("crossing at %d, want between %d and %d", c.BootNS, before, after)
	}
}

func TestCrossingsEndsWithItsContext(t *testing.T) {
	p := load(t, Options{})
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Crossings(ctx, nil) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("Crossings ended with %v", err)
	}
}

func FuzzDecodeCrossing(f *testing.F) {
	good := crossingValue{Dev: 7<<20 | 1, BootNs: 5, Free: 9, Resource: resourceInodes}
	raw, err := binary.Append(nil, binary.NativeEndian, good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	near := good
	near.Resource = resourceNear
	if raw, err = binary.Append(nil, binary.NativeEndian, near); err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := decodeCrossing(raw)
		if err != nil {
			if c != (Crossing{}) {
				t.Fatalf("%+v with error %v", c, err)
			}
			return
		}
		back := crossingValue{Dev: c.Dev, BootNs: c.BootNS, Free: c.Free}
		switch {
		case c.Inodes:
			back.Resource = resourceInodes
		case c.Near:
			back.Resource = resourceNear
		}
		back.Pad = binary.NativeEndian.Uint32(raw[28:])
		again, err := binary.Append(nil, binary.NativeEndian, back)
		if err != nil || string(again) != string(raw[:len(again)]) {
			t.Fatalf("%x decoded to %+v, which encodes to %x", raw, c, again)
		}
	})
}
