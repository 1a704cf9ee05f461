package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/agent/doctor"
	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/runtime/kube"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// variant is a way to configure a kubelet.
type variant struct {
	name    string
	fields  string            // of its configuration file, as YAML
	dropIns map[string]string // by path below --config-dir
	args    []string
}

const header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

var variants = []variant{
	{name: "defaults"},
	{name: "no defaults beside an own threshold", fields: "evictionHard: {imagefs.available: 7%}\n"},
	{name: "defaults merged", fields: "evictionHard: {imagefs.available: 7%}\nmergeDefaultEvictionSettings: true\n"},
	{name: "no thresholds", fields: "evictionHard: {}\nimageMinimumGCAge: 0s\n"},
	{
		name: "drop-ins", fields: "imageGCHighThresholdPercent: 99\nevictionHard: {nodefs.available: 3%, pid.available: 1%}\n",
		dropIns: map[string]string{
			"10-a.conf":         header + "imageGCHighThresholdPercent: 91\nevictionHard: {imagefs.available: 2Gi}\nmergeDefaultEvictionSettings: true\n",
			"20-b.conf":         header + "imageGCHighThresholdPercent: null\nimageGCLowThresholdPercent: 33\nevictionHard: {pid.available: null}\n",
			"15/x.conf":         header + "imageMaximumGCAge: 1h\nimageGCLowThresholdPercent: 44\n",
			"30-not-read.yaml":  "imageGCLowThresholdPercent: 1\n",
			"9-first-not.conf":  header + "imageGCLowThresholdPercent: 55\n",
			"90-minimum.conf":   header + "imageMinimumGCAge: 5m\n",
			"91-minimum-0.conf": header + "imageMinimumGCAge: 0s\n",
		},
	},
	{
		name: "a drop-in takes all thresholds away", fields: "",
		dropIns: map[string]string{"10.conf": header + "evictionHard: null\n"},
	},
	{
		name: "flags over all", fields: "imageGCHighThresholdPercent: 90\nevictionHard: {imagefs.available: 7%}\nmergeDefaultEvictionSettings: true\n",
		args: []string{
			"--image-gc-high-threshold", "97", "--image_gc_low_threshold=0x11", "--minimum-image-ttl-duration=90s",
			"--eviction-hard=imagefs.available<4%,nodefs.available<50Mi", "--eviction-hard=nodefs.inodesFree<2%",
			"--eviction-soft=imagefs.available<9%", "--eviction-soft-grace-period=imagefs.available=1m",
			"--maximum-dead-containers-per-container", "-1", "--maximum-dead-containers=-1", "--minimum-container-ttl-duration=3s",
		},
	},
}

// fixture is a throwaway node with a real kubelet.
type fixture struct {
	*peers.Kubelet
	node *node.Node
	base []byte // its configuration as it began
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	peerstest.Need(t)
	n := nodetest.Start(t, node.Config{Containerd: node.Debian, SizeBytes: 512 << 20})
	k := peerstest.StartKubelet(t, peers.KubeletConfig{Node: n})
	base, err := os.ReadFile(k.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{Kubelet: k, node: n, base: base}
}

// become restarts the kubelet as a variant of itself.
func (b *fixture) become(t *testing.T, v variant) {
	t.Helper()
	if err := os.WriteFile(b.ConfigFile(), append(slices.Clone(b.base), v.fields...), 0o600); err != nil {
		t.Fatal(err)
	}
	args := v.args
	if len(v.dropIns) > 0 {
		dir := t.TempDir()
		for name, text := range v.dropIns {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		args = append(slices.Clone(args), "--config-dir="+dir)
	}
	b.SetArgs(args...)
	if err := b.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (b *fixture) options(t *testing.T) doctor.Options {
	t.Helper()
	c := config.Default()
	c.Mode = config.ModeEnforce
	c.Runtime.Socket = b.node.Socket()
	c.Server.Address = ""
	c.State.Directory = t.TempDir()
	return doctor.Options{Config: c, SkipProbes: true}
}

func (b *fixture) access(t *testing.T) kube.KubeletOptions {
	t.Helper()
	files, err := b.ClientFiles(peers.User{Name: "doctor", Groups: []string{"system:masters"}})
	if err != nil {
		t.Fatal(err)
	}
	return kube.KubeletOptions{URL: b.URL(), CAFile: files.CA, CertFile: files.Cert, KeyFile: files.Key}
}

// values are settings without the places they come from.
func values(s kubelet.Settings) map[string]string {
	m := map[string]string{}
	for _, l := range s.List() {
		m[l.Name] = l.Value
	}
	return m
}

// TestRealKubeletsFiles: the settings read from command line and files are those that the
// kubelet itself reports.
func TestRealKubeletsFiles(t *testing.T) {
	b := newFixture(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			b.become(t, v)
			o := b.options(t)
			read := doctor.Collect(t.Context(), o).Kubelet
			if read.Chosen == nil || read.Chosen.PID != b.PID() {
				t.Fatalf("found %+v, chose %+v; the kubelet is %d (%v)", read.Found, read.Chosen, b.PID(), read.FindErr)
			}
			if read.Err != nil {
				t.Fatal(read.Err)
			}
			o.Kubelet = b.access(t)
			asked := doctor.Collect(t.Context(), o).Kubelet
			if asked.Err != nil {
				t.Fatal(asked.Err)
			}
			if diff := cmp.Diff(values(asked.Settings), values(read.Settings)); diff != "" {
				t.Errorf("the kubelet reports (-), its files were read as (+):\n%s", diff)
			}
		})
	}
}

// TestRealKubeletJudged: the report is true of a kubelet that collects images
// and of one that does not.
func TestRealKubeletJudged(t *testing.T) {
	b := newFixture(t)
	o := b.options(t)
	b.become(t, variants[0])
	expect(t, o, map[string]doctor.Level{
		"kubelet": doctor.OK, "image-collectors": doctor.Warning, "container-collectors": doctor.Note,
		"runtime": doctor.OK, "runtime.cri": doctor.OK, "runtime.endpoint": doctor.OK, "runtime.sandbox": doctor.OK,
		"eviction-threshold.images.bytes": doctor.OK, "eviction-threshold.images.inodes": doctor.OK, "disk.images": doctor.OK,
	})
	b.become(t, variant{
		fields: "imageGCHighThresholdPercent: 100\n",
		args:   []string{"--maximum-dead-containers-per-container=-1", "--maximum-dead-containers=-1"},
	})
	o.Config.Images.HighThresholdPercent = 85
	report := expect(t, o, map[string]doctor.Level{
		"image-collectors": doctor.OK, "container-collectors": doctor.OK,
		"eviction-threshold.images.bytes": doctor.Error, "eviction-threshold.images.inodes": doctor.OK,
	})
	if report.Summary.Errors == 0 {
		t.Errorf("%+v", report.Summary)
	}
	o.Config.Images.HighThresholdPercent = 84
	expect(t, o, map[string]doctor.Level{"eviction-threshold.images.bytes": doctor.Warning})
}

// TestRealKubeletNotRestarted: the doctor distinguishes files that the kubelet has not read yet from the
// settings with which it runs.
func TestRealKubeletNotRestarted(t *testing.T) {
	b := newFixture(t)
	o := b.options(t)
	expect(t, o, map[string]doctor.Level{"image-collectors": doctor.Warning})
	changed := append(slices.Clone(b.base), "imageGCHighThresholdPercent: 100\n"...)
	if err := os.WriteFile(b.ConfigFile(), changed, 0o600); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(time.Minute) // the file's time must not depend on how fast this test is
	if err := os.Chtimes(b.ConfigFile(), later, later); err != nil {
		t.Fatal(err)
	}
	expect(t, o, map[string]doctor.Level{"kubelet.stale": doctor.Warning, "image-collectors": doctor.OK})
	// The agent may ask this kubelet for its pods, so the doctor asks it, too.
	access := b.access(t)
	o.Config.Pods.Source = config.PodsFromKubelet
	o.Config.Pods.Kubelet = config.PodsKubelet{
		URL: access.URL, CertificateAuthority: access.CAFile, ClientCertificate: access.CertFile, ClientKey: access.KeyFile,
	}
	b.waitForPods(t, o)
	report := expect(t, o, map[string]doctor.Level{
		"kubelet.stale": doctor.Warning, "image-collectors": doctor.Warning, "agent.pods": doctor.OK,
	})
	o.Kubelet = kube.KubeletOptions{URL: access.URL, CAFile: access.CAFile} // anonymous
	expect(t, o, map[string]doctor.Level{"kubelet": doctor.OK, "kubelet.asked": doctor.Warning, "kubelet.stale": doctor.Warning})
	for _, c := range report.Checks {
		if c.ID == "kubelet.stale" && !strings.Contains(c.Found, "imageGCHighThresholdPercent is 85, not 100") {
			t.Errorf("stale: %s", c.Found)
		}
	}
}

const app = "doctor.test/app:1"

// TestRealKubeletKeepsDead: -1 does not switch everything off. When a container
// exits the kubelet removes its older dead ones, all but one; a larger number
// keeps more. docs/kubelet.md and container-keeping rest on it.
func TestRealKubeletKeepsDead(t *testing.T) {
	b := newFixture(t)
	if _, err := b.node.Import(t.Context(), node.CRINamespace, node.Image{Name: app}); err != nil {
		t.Fatal(err)
	}
	quick := "featureGates: {KubeletCrashLoopBackOffMax: true}\ncrashLoopBackOff: {maxContainerRestartPeriod: 1s}\n"
	spec := peers.PodSpec{Name: "crash", Image: app, Command: []string{"/bin/false"}}
	b.become(t, variant{fields: quick, args: []string{"--maximum-dead-containers-per-container=-1", "--maximum-dead-containers=-1"}})
	if err := b.AddStaticPod("crash", spec.Manifest()); err != nil {
		t.Fatal(err)
	}
	const attempts = 6
	// One that has just exited may not have been looked at yet.
	if kept := b.deadAt(t, attempts); kept > 3 {
		t.Errorf("%d dead containers are kept after %d attempts with -1", kept, attempts)
	}
	b.become(t, variant{fields: quick, args: []string{"--maximum-dead-containers-per-container=1000", "--maximum-dead-containers=-1"}})
	if kept := b.deadAt(t, 2*attempts); kept < attempts-1 {
		t.Errorf("%d dead containers are kept after %d more attempts with 1000", kept, attempts)
	}
}

// deadAt waits until a container was tried so often, and counts the dead ones.
func (b *fixture) deadAt(t *testing.T, attempt uint32) (dead int) {
	t.Helper()
	cri, _ := b.node.CRI()
	await.Holds(t, 2*time.Minute, fmt.Sprint("attempt ", attempt), func(ctx context.Context) error {
		list, err := cri.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		latest := uint32(0)
		dead = 0
		for _, c := range list.Containers {
			latest = max(latest, c.Metadata.GetAttempt())
			if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
				dead++
			}
		}
		if latest < attempt {
			return fmt.Errorf("attempt %d, %d dead", latest, dead)
		}
		return nil
	})
	return dead
}

// waitForPods waits until the kubelet has heard of all its pods: it was started
// a moment ago.
func (b *fixture) waitForPods(t *testing.T, o doctor.Options) {
	t.Helper()
	await.Holds(t, time.Minute, "the kubelet's pods", func(ctx context.Context) error {
		err := doctor.Collect(ctx, o).Pods.Err
		if err != nil && !errors.Is(err, kube.ErrIncomplete) {
			t.Fatal(err)
		}
		return err
	})
}

// expect collects and evaluates, and compares the levels of some checks.
func expect(t *testing.T, o doctor.Options, want map[string]doctor.Level) doctor.Report {
	t.Helper()
	report := doctor.Evaluate(doctor.Collect(t.Context(), o))
	got := map[string]doctor.Level{}
	for _, c := range report.Checks {
		if _, asked := want[c.ID]; asked {
			got[c.ID] = c.Level
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		var text strings.Builder
		if err := doctor.WriteText(&text, report); err != nil {
			t.Fatal(err)
		}
		t.Errorf("levels (-want +got):\n%s\n%s", diff, text.String())
	}
	return report
}
