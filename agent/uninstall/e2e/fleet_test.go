package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/agent/uninstall"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

const (
	fleetNodes = 1000
	fleetDead  = 10
	fleetTime  = 10 * time.Minute
)

// fleet is a cluster of a thousand nodes, ten of them dead, whose kubelets alone are not real.
type fleet struct {
	*testing.T
	*peerstest.Cluster
	*kubelets
	program, kubeconfig string
	alive, down         []string
	audited             int64 // of the audit log
}

// unloads is who runs the command: the account of the chart's Job, with its rights.
const unloads = "system:serviceaccount:" + namespace + ":ebb-uninstall-unload"

// interrupted is what an interrupted run prints.
var interrupted = regexp.MustCompile(`ebb: interrupted: \d+ of 1000 nodes are clean, and DaemonSet ebb-unload continues; run this again soon`)

func newFleet(t *testing.T) *fleet {
	t.Helper()
	c := peerstest.Start(t, peers.Config{Audit: true, Scheduler: true, ControllerManager: true,
		ControllerManagerArgs: []string{"--controllers=daemonset-controller,serviceaccount-controller"}})
	f := &fleet{T: t, Cluster: c, program: filepath.Join(buildtest.Programs(t, "cmd/ebb"), "ebb")}
	var err error
	if f.kubeconfig, err = c.Kubeconfig(unloads); err != nil {
		t.Fatal(err)
	}
	f.kubelets = startKubelets(t, c.AdminKubeconfig(t), 2*time.Second)
	c.Namespace(t, namespace)
	c.ApplyFiles(t, "manifests/uninstall/unload.yaml") // nobody runs its Job
	var making errgroup.Group
	making.SetLimit(2 * runtime.NumCPU())
	for n := range fleetNodes {
		name, dead := fmt.Sprintf("node-%04d", n), n%(fleetNodes/fleetDead) == 50
		if dead {
			f.down = append(f.down, name)
		} else {
			f.alive = append(f.alive, name)
		}
		making.Go(func() error { return f.Ask(t.Context(), http.MethodPost, "/api/v1/nodes", nodeObject(name, dead), nil) })
	}
	if err := making.Wait(); err != nil {
		t.Fatal(err)
	}
	f.set(true, f.down...)
	return f
}

// run is one of the command.
type run struct {
	uninstall.Unloaded
	code     int
	took     time.Duration
	memory   int64 // its maximum, in bytes
	requests int
}

// lines collects the output of a program.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// unload runs the command, and sends it a signal once so many nodes have begun, if any.
func (f *fleet) unload(signal syscall.Signal, begun int, args ...string) (r run, output string) {
	f.Helper()
	var out bytes.Buffer
	var errs lines
	cmd := exec.CommandContext(f.Context(), f.program, append([]string{"uninstall", "unload", "--namespace", namespace, "--image", "ebb:v1", "-o", "json", "--kubeconfig", f.kubeconfig}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	at := time.Now()
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	if signal != 0 {
		await.Holds(f, fleetTime, "nodes to begin", func(context.Context) error {
			if n := f.begun(); n < begun || !strings.Contains(errs.String(), " nodes are clean after ") {
				return fmt.Errorf("%d have", n)
			}
			return nil
		})
		if err := cmd.Process.Signal(signal); err != nil {
			f.Fatal(err)
		}
	}
	_ = cmd.Wait() // the exit code shows it
	r.took, r.code, output = time.Since(at), cmd.ProcessState.ExitCode(), errs.String()
	r.memory = cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	if err := json.Unmarshal(out.Bytes(), &r.Unloaded); out.Len() > 0 && err != nil {
		f.Fatal(err)
	}
	var err error
	if f.audited, err = f.ReadAudit(f.audited, func(e peers.AuditEvent) {
		if e.User.Username == unloads {
			r.requests++
		}
		if e.User.Username == unloads && e.ResponseStatus.Code == http.StatusForbidden {
			f.Errorf("it may not: %s %s", e.Verb, e.RequestURI)
		}
	}); err != nil {
		f.Fatal(err)
	}
	f.Logf("exit code %d after %s, %d requests, %d MiB, at most %d nodes at a time:\n%s",
		r.code, r.took.Round(100*time.Millisecond), r.requests, r.memory>>20, f.atMost(), output)
	return r, output
}

// TestFleet: of a thousand nodes ten are dead. Killed, interrupted and run again, unload clears
// each that is alive once, names those that are dead, and in the end leaves nothing.
func TestFleet(t *testing.T) {
	f := newFleet(t)
	at := time.Now()
	f.unload(syscall.SIGKILL, 200)
	if r, output := f.unload(syscall.SIGINT, 400); r.code != 1 || !interrupted.MatchString(output) {
		t.Errorf("interrupted: exit code %d: %s", r.code, output)
	}
	r, output := f.unload(0, 0)
	if took := time.Since(at); took > fleetTime {
		t.Errorf("it took %s", took)
	}
	if r.code != 4 || r.Clean != len(f.alive) || len(r.Nodes) != fleetDead || len(r.Left) > 0 {
		t.Errorf("exit code %d: %+v", r.code, r.Unloaded)
	}
	for i, n := range r.Nodes {
		if n.Node != f.down[i] || n.Result != uninstall.NotInTime || !strings.Contains(n.Says, "is the node down?") {
			t.Errorf("%+v", n)
		}
	}
	if len(r.Later) != 3 || !strings.HasSuffix(r.Later[0], " --node "+strings.Join(f.down, ",")) {
		t.Errorf("it does not say what to do: %q", r.Later)
	}
	if lines := strings.Count(output, "\n"); lines > 50+fleetDead {
		t.Errorf("it printed %d lines", lines)
	}
	f.wantStarted(f.alive, 1)
	f.wantStarted(f.down, 0)
	f.wantLeft()
	f.testBack()
}

// testBack: nodes that come back are cleared by the printed command, and no others.
func (f *fleet) testBack() {
	f.set(false, f.down[:3]...)
	if r, _ := f.unload(0, 0, "--node", strings.Join(f.down, ",")); r.code != 4 || r.Clean != 3 || len(r.Nodes) != fleetDead-3 {
		f.Errorf("exit code %d: %+v", r.code, r.Unloaded)
	}
	f.wantStarted(f.down[:3], 1)
	f.set(false, f.down[3])
	if r, _ := f.unload(0, 0, "--node", f.down[3]); r.code != 0 || r.Clean != 1 {
		f.Errorf("exit code %d: %+v", r.code, r.Unloaded)
	}
	f.wantStarted(f.alive, 1)
	f.wantStarted(f.down[:4], 1)
	f.wantLeft()
}

// wantLeft looks for what runs have made.
func (f *fleet) wantLeft() {
	f.Helper()
	var left [4]string
	for i, path := range []string{"/api/v1/namespaces/%s/pods", "/apis/apps/v1/namespaces/%s/daemonsets", "/apis/apps/v1/namespaces/%s/controllerrevisions", "/api/v1/namespaces/%s/configmaps"} {
		var list struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		f.Read(f, fmt.Sprintf(path, namespace), &list)
		names := []string{}
		for _, o := range list.Items {
			names = append(names, o.Metadata.Name)
		}
		left[i] = fmt.Sprint(names)
	}
	if want := [4]string{"[]", "[]", "[]", "[ebb-uninstall-unload]"}; left != want {
		f.Errorf("there are %v, want %v", left, want)
	}
}
