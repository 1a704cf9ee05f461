package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
)

func TestPulledRecordsAreJudged(t *testing.T) {
	const dir = "/var/lib/kubelet/image_manager/pulled"
	for name, c := range map[string]struct {
		pulled PulledFacts
		want   Level
		words  []string
	}{
		"none, or an older kubelet": {PulledFacts{}, "", nil},
		"empty":                     {PulledFacts{Dir: dir}, OK, []string{"0 in " + dir}},
		"few":                       {PulledFacts{Dir: dir, Count: manyPulled - 1}, OK, []string{"9999 in"}},
		"many": {PulledFacts{Dir: dir, Count: manyPulled}, Note, []string{
			"10000 in " + dir, "imageGCHighThresholdPercent", "with the kubelet stopped", "docs/kubelet.md", "private image"}},
		"unread": {PulledFacts{Dir: dir, Err: errors.New("permission denied")}, Note, []string{"permission denied", "as root"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := healthy()
			f.Kubelet.Pulled = c.pulled
			if got := levelsOf(f)["image-records"]; got != c.want {
				t.Errorf("level %q, want %q", got, c.want)
			}
			all := &findings{}
			evaluatePulled(all, &f)
			for _, word := range c.words {
				if !strings.Contains(fmt.Sprint(all.checks), word) {
					t.Errorf("%q is not in %+v", word, all.checks)
				}
			}
		})
	}
}

func TestPulledRecordsAreCounted(t *testing.T) {
	root := t.TempDir()
	k := KubeletFacts{Source: "a test", Settings: kubelet.Defaults()}
	k.Settings.RootDir.V = root
	if k.readPulled(); k.Pulled != (PulledFacts{}) {
		t.Errorf("without a directory: %+v", k.Pulled)
	}
	dir := filepath.Join(root, "image_manager", "pulled")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const many = 3000 // more than are read at once
	for i := range many {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("sha256-%d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if k.readPulled(); k.Pulled != (PulledFacts{Dir: dir, Count: many}) {
		t.Errorf("%+v", k.Pulled)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if k.readPulled(); k.Pulled.Dir != dir || k.Pulled.Err == nil {
		t.Errorf("a file for a directory: %+v", k.Pulled)
	}
}
