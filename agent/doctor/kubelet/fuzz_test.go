package kubelet

import (
	"math"
	"strings"
	"testing"
)

// FuzzCommandLine: whatever a process calls itself is read without harm, and
// what is shown of it is short and on one line.
func FuzzCommandLine(f *testing.F) {
	f.Add([]byte("kubelet\x00--config=/a\x00--eviction-hard=imagefs.available<5%\x00"))
	f.Add([]byte("kubelet\x00--maximum-dead-containers\x00"))
	f.Add([]byte("\x00\x00--\x00"))
	f.Add([]byte("kubelet\x00--config=\x1b[2J\n\u2028\xff"))
	f.Fuzz(func(t *testing.T, line []byte) {
		args := splitCommandLine(line)
		if len(args) > len(line)+1 {
			t.Fatalf("%d arguments of %d bytes", len(args), len(line))
		}
		flags, _ := parseFlags(args) // as far as they can be read
		if len(flags) > len(args) {
			t.Fatalf("%d flags of %d arguments", len(flags), len(args))
		}
		s := Defaults()
		err := s.layFlags(flags)
		if s.FlagsKnown {
			t.Fatal("flags alone do not say that they were all read")
		}
		if len(s.EvictionHard) > maxEntries || len(s.EvictionSoft) > maxEntries {
			t.Fatal("maps without bound")
		}
		shown := clean(last(flags, "config"))
		if strings.ContainsAny(shown, "\n\x1b\u2028") || len([]rune(shown)) > 201 {
			t.Fatalf("shown as %q", shown)
		}
		again := Defaults()
		if againErr := again.layFlags(flags); (err == nil) != (againErr == nil) {
			t.Fatal("once this, once that")
		}
	})
}

// FuzzConfiguration: a file is read as a whole or refused.
func FuzzConfiguration(f *testing.F) {
	f.Add([]byte(head+"evictionHard: {imagefs.available: 5%}\nimageMinimumGCAge: 0s\n"), false)
	f.Add([]byte(head+"evictionHard: null\nevictionSoft: {a: 1%}\n"), true)
	f.Add([]byte(`{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1","imageGCHighThresholdPercent":null}`), true)
	f.Add([]byte("a: &a [*a]"), false)
	f.Fuzz(func(t *testing.T, data []byte, dropIn bool) {
		if len(data) > 1<<16 {
			return // the parser of YAML is not ours, and slow
		}
		s := Defaults()
		lay := s.layFile
		if dropIn {
			lay = s.layDropIn
		}
		if err := lay(data, "fuzz"); err != nil {
			return
		}
		if len(s.EvictionHard) > maxEntries+len(defaultEvictionHard) || len(s.ContainerRuntimeEndpoint.V) > maxText {
			t.Fatal("without bound")
		}
		for _, l := range s.List() {
			if l.From != FromDefault && l.From != "fuzz" {
				t.Fatalf("%s comes from %q", l.Name, l.From)
			}
		}
	})
}

// FuzzAnswer: an answer of /configz likewise.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"kubeletconfig":{"imageGCHighThresholdPercent":85,"evictionHard":{"imagefs.available":"15%"}}}`))
	f.Add([]byte(`{"kubeletconfig":null}`))
	f.Add([]byte(`<html>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<16 {
			return
		}
		if s, err := FromAnswer(body); err == nil && s.FlagsKnown {
			t.Fatal("/configz does not have flags")
		}
	})
}

// FuzzThreshold: what is accepted is a threshold somewhere.
func FuzzThreshold(f *testing.F) {
	for _, seed := range []string{"15%", "10Gi", "1e9", "0%", "-1", "1e99999999", "0x1p-2%", "5m", "1_0%"} {
		f.Add(seed, uint64(1<<40))
	}
	f.Fuzz(func(t *testing.T, text string, capacity uint64) {
		th, err := ParseThreshold(text)
		if err != nil {
			return
		}
		used := th.UsedPercent(capacity)
		if math.IsNaN(used) || used > 100 || th.Percent < 0 || th.Percent > 100 || th.Quantity < 0 {
			t.Fatalf("%q is %+v: acts at %v %%", text, th, used)
		}
	})
}
