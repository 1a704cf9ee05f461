package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/state"
)

// What a removal waits for its entry, alone and in a group of eight, in a file that is full of entries.
func BenchmarkBegin(b *testing.B) {
	for _, group := range []int{1, 8} {
		b.Run(fmt.Sprint("group of ", group), func(b *testing.B) {
			k := newKit(b, limits{})
			k.attach(b.TempDir())
			fill(k)
			go k.Run(b.Context())
			for b.Loop() {
				attempts := k.Begin(ids(group)...)
				k.Durable(b.Context(), attempts...)
				for _, a := range attempts {
					a.Removed(&Freed{})
				}
			}
			k.Close()
			k.close()
		})
	}
}

// What a start with a full history costs.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	k := newKit(b, limits{})
	k.attach(dir)
	fill(k)
	k.close()
	var opened, attached time.Duration
	for b.Loop() {
		k.restart(limits{})
		at := time.Now()
		s, _, _, err := state.Open(dir, t0)
		if err != nil {
			b.Fatal(err)
		}
		opened += time.Since(at)
		k.Attach(s.DB())
		attached += time.Since(at)
		s.Close()
	}
	b.ReportMetric(float64(opened.Milliseconds())/float64(b.N), "open-ms")
	b.ReportMetric(float64((attached-opened).Milliseconds())/float64(b.N), "attach-ms")
}

func fill(k *kit) {
	for range 100 {
		for _, a := range k.Begin(ids(100)...) {
			a.Removed(&Freed{Bytes: 1})
		}
		for n := range 100 {
			k.Refused(imageEntry(fmt.Sprint("r", n)))
		}
		clear(k.refusals)
		k.write()
	}
}
