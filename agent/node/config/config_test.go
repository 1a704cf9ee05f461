package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/configfile"
)

func TestEmptyFileMeansDefaults(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing\n", "{}", "null"} {
		got, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
		}
		if diff := cmp.Diff(Default(), got); diff != "" {
			t.Errorf("Parse(%q) differs from the defaults:\n%s", text, diff)
		}
	}
}

func TestPrintedConfigurationReadsBack(t *testing.T) {
	want := Default()
	want.Mode = ModeEnforce
	want.Images.Keep = []string{"registry.k8s.io/**", `a"b`}
	want.Images.MaximumAge = Duration(12*time.Hour + 45*time.Minute)
	var out bytes.Buffer
	if err := Print(&out, want); err != nil {
		t.Fatal(err)
	}
	got, err := Parse(out.Bytes())
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("printed and read back (-want +got):\n%s", diff)
	}
	if !strings.Contains(out.String(), "imageMaximumGCAge: 12h45m\n") {
		t.Errorf("a duration is not written as people write it:\n%s", out.String())
	}
}

// TestObservesByDefault: only mode: enforce makes the agent remove anything.
func TestObservesByDefault(t *testing.T) {
	for _, text := range []string{"", "mode: observe\n", "images: {imageMaximumGCAge: 1h}\n", "{}\n"} {
		c, err := Parse([]byte(text))
		if err != nil || c.Mode != ModeObserve {
			t.Errorf("%q: mode %s, %v", text, c.Mode, err)
		}
	}
	var out bytes.Buffer
	if err := Print(&out, Default()); err != nil || !strings.Contains(out.String(), "\nmode: \"observe\"\n") {
		t.Errorf("%v, what is printed and copied:\n%s", err, out.String())
	}
}

// Every field a user can set is explained: nothing is printed without a
// comment above it.
func TestEveryFieldIsDocumented(t *testing.T) {
	var out bytes.Buffer
	if err := Print(&out, Default()); err != nil {
		t.Fatal(err)
	}
	previous := ""
	for line := range strings.Lines(out.String()) {
		trimmed := strings.TrimSpace(line)
		if !strings.HasPrefix(trimmed, "#") && !strings.HasPrefix(strings.TrimSpace(previous), "#") {
			t.Errorf("no documentation above %q", trimmed)
		}
		previous = line
	}
}

func TestFieldsAreRead(t *testing.T) {
	got, err := Parse([]byte(`
mode: enforce
reconcileInterval: 1m
runtime: {socket: /run/k3s/containerd/containerd.sock}
images:
  imageGCHighThresholdPercent: 90
  imageGCLowThresholdPercent: 50
  imageMinimumGCAge: 0
  imageMaximumGCAge: 12h45m
  keep: ["registry.k8s.io/**"]
kernel: {enabled: false}
filesystems:
  kubelet: {path: /data/kubelet, highThresholdPercent: 70}
  podLogs: {path: ""}
server: {address: ""}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Mode = ModeEnforce
	want.ReconcileInterval = Duration(time.Minute)
	want.Runtime.Socket = "/run/k3s/containerd/containerd.sock"
	want.Images.HighThresholdPercent, want.Images.LowThresholdPercent = 90, 50
	want.Images.MinimumAge, want.Images.MaximumAge = 0, Duration(12*time.Hour+45*time.Minute)
	want.Images.Keep = []string{"registry.k8s.io/**"}
	want.Filesystems.Kubelet.Path, want.Filesystems.Kubelet.HighThresholdPercent = "/data/kubelet", 70
	want.Filesystems.PodLogs.Path = ""
	want.Kernel.Enabled = false
	want.Server.Address = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// All errors are reported at once, each with its field.
func TestAllProblemsAtOnce(t *testing.T) {
	_, err := Parse([]byte(`
mode: delete-everything
reconcileInterval: 5
colour: blue
images:
  imageGCHighThresholdPercent: "80"
  imageGCLowThresholdPercent: 101
  inodesHighThresholdPercent: 70
  inodesLowThresholdPercent: 70
  imageMinimumGCAge: -1m
  imageMaximumGCAge: soon
  futileShare: 101
  keep: [ok, 7, "["]
  maxRemovalsPerHour: 1.5
  low: 3
runtime: containerd.sock
state: {directory: var/lib/ebb}
kernel: {layerHeat: hot}
kubelet: {imageGCHighThresholdPercent: 101}
filesystems:
  kubelet: {path: kubelet, highThresholdPercent: 0}
  podLogs: {path: /var/log/pods/, inodesHighThresholdPercent: 101}
  mountInfo: ""
server: {address: nowhere, healthAddress: "127.0.0.1:http", webConfigFile: web.yml}
log: {level: loud, format: null}
`))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		`mode: "delete-everything" is not one of`,
		`reconcileInterval: want a duration such as "90s" or "12h45m", got 5`,
		`colour: unknown field (known here: mode, `,
		`images.imageGCHighThresholdPercent: want a whole number, got the string "80"`,
		`images.imageGCLowThresholdPercent: 101 is not between 0 and 99`,
		`images.inodesLowThresholdPercent: 70 is not below images.inodesHighThresholdPercent (70)`,
		`images.imageMinimumGCAge: -1m is negative`,
		`images.imageMaximumGCAge: want a duration`,
		`images.futileShare: 101 is not between 0 and 100`,
		`images.keep[1]: want a string, got 7`,
		`images.keep[2]: `,
		`images.maxRemovalsPerHour: "1.5" is neither a number of images from 1 to 100000 nor a share from 1% to 100%`,
		`images.low: unknown field`,
		`runtime: want a mapping, got the string "containerd.sock"`,
		`kernel.layerHeat: "hot" is not one of`,
		`kubelet.imageGCHighThresholdPercent: 101 is not between 0 and 100`,
		`state.directory: "var/lib/ebb" is not a clean absolute path`,
		`filesystems.kubelet.path: "kubelet" is not a clean absolute path`,
		`filesystems.kubelet.highThresholdPercent: 0 is not between 1 and 100`,
		`filesystems.podLogs.path: "/var/log/pods/" is not a clean absolute path`,
		`filesystems.podLogs.inodesHighThresholdPercent: 101 is not between 1 and 100`,
		`filesystems.mountInfo: "" is not a clean absolute path`,
		`server.address: want host:port`,
		`server.healthAddress: port "http" is not a number`,
		`server.webConfigFile: "web.yml" is not a clean absolute path`,
		`log.level: "loud" is not one of`,
		`log.format: want a string, got nothing`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q", want)
		}
	}
	if n := strings.Count(err.Error(), "reconcileInterval:"); n != 1 {
		t.Errorf("reconcileInterval is complained about %d times", n)
	}
	if t.Failed() {
		t.Log(err)
	}
}

// A cap is a number or a share, in quotes or not, and is printed as it was given.
func TestCaps(t *testing.T) {
	for text, want := range map[string]Cap{"500": "500", `"500"`: "500", "50%": "50%", `"7%"`: "7%", "100000": "100000", "100%": "100%"} {
		c, err := Parse([]byte("images: {maxRemovalsPerHour: " + text + "}"))
		if err != nil || c.Images.MaxRemovalsPerHour != want {
			t.Errorf("%s: %q, %v", text, c.Images.MaxRemovalsPerHour, err)
		}
		var out bytes.Buffer
		if err := Print(&out, c); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(out.Bytes())
		if err != nil || again.Images.MaxRemovalsPerHour != want {
			t.Errorf("%s: printed and read: %q, %v", text, again.Images.MaxRemovalsPerHour, err)
		}
	}
	for _, text := range []string{"0", "-1", "100001", "0%", "101%", `"%"`, "half", `""`, "5 %", "5%%", "[5]", "true"} {
		if _, err := Parse([]byte("images: {maxRemovalsPerHour: " + text + "}")); err == nil || !strings.Contains(err.Error(), "images.maxRemovalsPerHour: ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestLowAboveHigh(t *testing.T) {
	_, err := Parse([]byte("images: {imageGCHighThresholdPercent: 70}"))
	if err == nil || !strings.Contains(err.Error(), "images.imageGCLowThresholdPercent: 75 is not below images.imageGCHighThresholdPercent (70)") {
		t.Errorf("got %v", err)
	}
}

func TestLoadRefusesWhatIsNotAFile(t *testing.T) {
	dir := t.TempDir()
	huge := filepath.Join(dir, "huge")
	if err := os.WriteFile(huge, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, configfile.MaxBytes+1); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing"), dir, "/dev/zero", huge} {
		if _, err := Load(path); err == nil {
			t.Errorf("Load(%s) accepted it", path)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("the error does not name %s: %v", path, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("mode: observe\nimages: {keep: [a]}"))
	f.Add([]byte("images: {imageGCHighThresholdPercent: 1e99}"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			return
		}
		if p := c.problems(nil); len(p) > 0 {
			t.Errorf("accepted an invalid configuration: %v", p)
		}
		var out bytes.Buffer
		if err := Print(&out, c); err != nil {
			t.Fatal(err)
		}
		again, err := Parse(out.Bytes())
		if err != nil {
			t.Fatalf("what was printed is refused: %v\n%s", err, out.String())
		}
		if diff := cmp.Diff(c, again); diff != "" {
			t.Errorf("printed and read back:\n%s", diff)
		}
	})
}

// TestWebConfigNeedsHealth: probes have no password, and TLS needs something to be for.
func TestWebConfigNeedsHealth(t *testing.T) {
	for text, good := range map[string]bool{
		"{healthAddress: '127.0.0.1:0', webConfigFile: /web.yml}":              true,
		"{webConfigFile: /web.yml}":                                            false,
		"{address: '', healthAddress: '127.0.0.1:0', webConfigFile: /web.yml}": false,
		"{address: '', healthAddress: '127.0.0.1:0'}":                          true,
	} {
		_, err := Parse([]byte("server: " + text + "\n"))
		if good && err != nil || !good && (err == nil || !strings.Contains(err.Error(), "server.webConfigFile: needs server.address")) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
