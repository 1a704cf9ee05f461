package kubelet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func thresholds(s map[string]Value[string]) map[string]string {
	m := map[string]string{}
	for k, v := range s {
		m[k] = v.V + " " + v.From
	}
	return m
}

// layArgs lays a command line.
func layArgs(s *Settings, args ...string) error {
	flags, err := parseFlags(args)
	return errors.Join(err, s.layFlags(flags))
}

func TestFileThenDropInsThenFlags(t *testing.T) {
	s := Defaults()
	for _, err := range []error{
		s.layFile([]byte(head+"imageGCHighThresholdPercent: 90\nimageGCLowThresholdPercent: 70\nevictionHard: {imagefs.available: 7%, nodefs.available: 4%}\n"), "file"),
		s.layDropIn([]byte(head+"imageGCHighThresholdPercent: 91\nevictionHard: {imagefs.available: 8%, nodefs.available: null}\n"), "10.conf"),
		layArgs(&s, "--image-gc-low-threshold", "60", "--maximum-dead-containers", "-1"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if s.ImageGCHighThresholdPercent != (Value[int]{91, "10.conf"}) || s.ImageGCLowThresholdPercent != (Value[int]{60, "--image-gc-low-threshold"}) {
		t.Errorf("high %v, low %v", s.ImageGCHighThresholdPercent, s.ImageGCLowThresholdPercent)
	}
	if s.MaximumDeadContainers != (Value[int]{-1, "--maximum-dead-containers"}) || s.ImageMinimumGCAge != (Value[time.Duration]{2 * time.Minute, FromDefault}) {
		t.Errorf("dead %v, age %v", s.MaximumDeadContainers, s.ImageMinimumGCAge)
	}
	if diff := cmp.Diff(map[string]string{"imagefs.available": "8% 10.conf"}, thresholds(s.EvictionHard)); diff != "" {
		t.Error(diff)
	}
}

func TestFilesThatMakeNoSense(t *testing.T) {
	for name, text := range map[string]string{
		"empty":        "",
		"list":         "[]",
		"scalar":       "7",
		"no kind":      "imageGCHighThresholdPercent: 90",
		"other kind":   strings.ReplaceAll(head, "Kubelet", "Scheduler"),
		"other":        strings.ReplaceAll(head, "v1beta1", "v1"),
		"text":         head + "imageGCHighThresholdPercent: many",
		"huge number":  head + "imageGCHighThresholdPercent: 9223372036854775807",
		"fraction":     head + "imageGCHighThresholdPercent: 80.5",
		"duration":     head + "imageMaximumGCAge: tomorrow",
		"thresholds":   head + "evictionHard: 5%",
		"long":         head + "containerRuntimeEndpoint: " + strings.Repeat("x", maxText+1),
		"long file":    head + "# " + strings.Repeat("x", maxFileBytes),
		"binary":       "\x00\x01\x02",
		"bomb":         head + "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n",
		"gone to null": "null",
	} {
		s := Defaults()
		if err := s.layFile([]byte(text), name); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestParseFlags(t *testing.T) {
	got, err := parseFlags([]string{
		"--config", "/a b", "-v", "2", "--fail-swap-on=false", "--unknown", "value", "--enable_server",
		"--maximum-dead-containers", "-1", "--eviction-hard=imagefs.available<5%,x<1", "--root-dir", "", "--config_dir=/b", "--", "--config=/never",
	})
	want := []flag{
		{"config", "/a b"}, {"maximum-dead-containers", "-1"}, {"eviction-hard", "imagefs.available<5%,x<1"},
		{"root-dir", ""}, {"config-dir", "/b"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(flag{})); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	for _, arg := range []string{
		"--image-gc-high-threshold=many", "--image-gc-high-threshold=99999999999", "--minimum-image-ttl-duration=5",
		"--eviction-hard=imagefs.available", "--maximum-dead-containers=", "--maximum-dead-containers",
		"--eviction-soft=" + strings.Repeat("x", maxText+1),
	} {
		s := Defaults()
		if err := layArgs(&s, arg); err == nil {
			t.Errorf("%.60s: accepted", arg)
		}
	}
}

func TestParseThreshold(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		text     string
		capacity uint64
		used     float64 // percent at which the kubelet acts
		bad, off bool
	}{
		{text: "15%", capacity: 40 * gib, used: 85},
		{text: "0.5%", capacity: 40 * gib, used: 99.5},
		{text: "10Gi", capacity: 40 * gib, used: 75},
		{text: "50Gi", capacity: 40 * gib, used: -25},
		{text: "1e9", capacity: 1e10, used: 90},
		{text: "500000", capacity: 1000000, used: 50},
		{text: "0%", off: true}, {text: "100%", off: true},
		{text: "101%", bad: true}, {text: "-1%", bad: true}, {text: "%", bad: true}, {text: "NaN%", bad: true}, {text: "Inf%", bad: true},
		{text: "0", bad: true}, {text: "-5Gi", bad: true}, {text: "", bad: true}, {text: "5Gib", bad: true}, {text: "five", bad: true},
		{text: "1e2147483647", bad: true}, {text: strings.Repeat("9", 100), bad: true}, {text: "1..2", bad: true},
	} {
		th, err := ParseThreshold(tt.text)
		switch {
		case (err != nil) != tt.bad:
			t.Errorf("%q: error %v", tt.text, err)
		case tt.bad:
		case th.Off() != tt.off:
			t.Errorf("%q: off is %v", tt.text, th.Off())
		case !tt.off && th.UsedPercent(tt.capacity) != tt.used:
			t.Errorf("%q of %d: acts at %v %%, want %v", tt.text, tt.capacity, th.UsedPercent(tt.capacity), tt.used)
		}
	}
}

// TestMergeIsAMergePatch: laying files over one another is the same as a naive
// merge of their maps.
func TestMergeIsAMergePatch(t *testing.T) {
	signals := []string{"imagefs.available", "nodefs.available", "pid.available", "nodefs.inodesFree"}
	rapid.Check(t, func(t *rapid.T) {
		naive := map[string]string{}
		for k, v := range defaultEvictionHard {
			naive[k] = v
		}
		s := Defaults()
		if err := s.layFile([]byte(head), "file"); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 6).Draw(t, "files") {
			text := head + "evictionHard:"
			change := rapid.MapOf(rapid.SampledFrom(signals), rapid.SampledFrom([]string{"null", "1%", "2%", "3Gi"})).Draw(t, "change")
			switch {
			case rapid.IntRange(0, 4).Draw(t, "null") == 0:
				text += " null\n"
				clear(naive)
				change = nil
			case len(change) == 0:
				text += " {}\n"
			default:
				text += "\n"
			}
			for signal, v := range change {
				text += "  " + signal + ": " + v + "\n"
				if naive[signal] = v; v == "null" {
					delete(naive, signal)
				}
			}
			if err := s.layDropIn([]byte(text), "x.conf"); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		got := map[string]string{}
		for k, v := range s.EvictionHard {
			got[k] = v.V
		}
		if diff := cmp.Diff(naive, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestFromFile(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	if err := os.WriteFile(good, []byte(head+"imageGCHighThresholdPercent: 100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := FromFile(good)
	if err != nil || s.CollectsImages() || len(s.EvictionHard) != len(defaultEvictionHard) {
		t.Errorf("%v, collects %v, %d thresholds", err, s.CollectsImages(), len(s.EvictionHard))
	}
	for _, bad := range []string{dir, filepath.Join(dir, "none"), "/dev/zero"} {
		if _, err := FromFile(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
