package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/process"
)

// program is a controller in a process of its own.
type program struct {
	*process.Process
	t      *testing.T
	dir    string
	log    logBuffer
	socket string
}

// launch starts the program with a configuration.
func (b *fixture) launch(t *testing.T, binary, yaml string) *program {
	t.Helper()
	// A socket's path is short, and a test's directory is not.
	dir, err := os.MkdirTemp("", "ebbc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &program{t: t, dir: dir, socket: filepath.Join(dir, "s")}
	p.configure(yaml)
	cmd := exec.Command(binary, "--kubeconfig", b.kubeconfig, "--config", filepath.Join(dir, "c.yaml"))
	cmd.Stderr = &p.log
	if p.Process, err = process.Start(cmd, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if text := p.log.text(); t.Failed() {
			t.Logf("the controller's log ends with:\n%s", text[max(0, len(text)-8<<10):])
		}
	})
	return p
}

func (p *program) configure(yaml string) {
	p.t.Helper()
	if !strings.Contains(yaml, "mode:") {
		yaml += "\nmode: enforce"
	}
	yaml += fmt.Sprintf("\nserver: {address: '', adminSocket: %s}\nlog: {level: debug}\n", p.socket)
	if err := os.WriteFile(filepath.Join(p.dir, "c.yaml"), []byte(yaml), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) kill() { _ = p.End(context.Background(), syscall.SIGKILL) }

// exit waits for the end, and returns the exit code.
func (p *program) exit() int {
	p.t.Helper()
	select {
	case <-p.Done():
	case <-time.After(30 * time.Second):
		p.t.Fatal("it does not end")
	}
	return p.State().ExitCode()
}

func (p *program) ask(ctx context.Context, method, path string) (text string, err error) {
	err = peers.Request(ctx, peers.UnixClient(p.socket), method, "http://ebb"+path, nil, &text)
	return text, err
}

func (p *program) awaitReady(want string) {
	p.t.Helper()
	await.Holds(p.t, patience, "it to be ready", func(ctx context.Context) error {
		text, err := p.ask(ctx, http.MethodGet, "/readyz")
		if err == nil && !strings.HasPrefix(text, want) {
			err = fmt.Errorf("it answers %q", text)
		}
		return err
	})
}

const alone = "leaderElection: {enabled: false}\n"

func TestProcess(t *testing.T) {
	b := newFixture(t, peers.Config{Audit: true, ControllerManager: true, ControllerManagerArgs: []string{
		"--controllers=garbage-collector-controller", "--kube-api-qps=1000", "--kube-api-burst=1000"}})
	if err := b.ControllerManager.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	binary := buildtest.Program(t, "cmd/ebb-controller")
	t.Run("killed at any moment", func(t *testing.T) { testKilled(t, b, binary) })
	t.Run("killed while owners are orphaned", func(t *testing.T) { testKilledOrphaning(t, b, binary) })
	t.Run("two without election", func(t *testing.T) { testTwo(t, b, binary) })
	t.Run("election", func(t *testing.T) { testElection(t, b, binary) })
	t.Run("lease lost", func(t *testing.T) { testLeaseLost(t, b, binary) })
	t.Run("control", func(t *testing.T) { testControl(t, b, binary) })
	t.Run("halted over a restart", func(t *testing.T) { testHaltKept(t, b, binary) })
	t.Run("beside an active collector", func(t *testing.T) { testBeside(t, b, binary) })
}

// mixed is a scenario in which something of everything is going on.
func (b *fixture) mixed(t *testing.T, n int) *scenario {
	s := b.scenario(t)
	s.make("cm/o", "cm/p", "cm/q", "cm/keep", "cm/k < cm/keep")
	s.many("secret", "cm/o", n)
	s.many("deploy", "cm/p", n)
	s.many("rs", "cm/q", n)
	return s
}

func (s *scenario) begin() {
	s.remove("cm/o", background)
	s.remove("cm/p", foreground)
	s.remove("cm/q", orphan)
}

// ended is what it always comes to.
func (s *scenario) ended(n int) {
	s.t.Helper()
	s.want("-cm/o", "-cm/p", "-cm/q", "cm/keep", "cm/k=1")
	s.awaitLeft("secret", 0, 0)
	s.awaitLeft("deploy", 0, 0)
	s.awaitLeft("rs", n, 0)
}

// Killed in the middle of everything, at a moment that differs, and started again:
// nothing is lost, and nothing goes that should stay.
func testKilled(t *testing.T, b *fixture, binary string) {
	const n = 40
	for round := range 20 {
		s := b.mixed(t, n)
		s.begin()
		for range 3 {
			p := b.launch(t, binary, alone)
			// From before the lists are there to after the end.
			time.Sleep(time.Duration(20+s.chance.IntN(150+30*round)) * time.Millisecond)
			p.kill()
		}
		p := b.launch(t, binary, alone)
		s.ended(n)
		p.kill()
	}
}

// Two at once are redundant, and safe.
func testTwo(t *testing.T, b *fixture, binary string) {
	one, two := b.launch(t, binary, alone), b.launch(t, binary, alone)
	one.awaitReady("ok")
	two.awaitReady("ok")
	s := b.mixed(t, 100)
	s.begin()
	s.ended(100)
}

const elected = "leaderElection: {leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 200ms}\n"

// One leads, the other waits; at a clean end the Lease is given back at once.
func testElection(t *testing.T, b *fixture, binary string) {
	one := b.launch(t, binary, elected)
	one.awaitReady("ok\n")
	two := b.launch(t, binary, elected)
	two.awaitReady("ok: waiting")
	s := b.mixed(t, 50)
	s.begin()
	s.ended(50)
	s = b.mixed(t, 100)
	s.begin()
	begun := time.Now()
	if err := one.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := one.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	two.awaitReady("ok\n")
	t.Logf("taken over after %v", time.Since(begun))
	s.ended(100)
}

// Who loses the Lease in the middle of its work ends at once, and not well.
func testLeaseLost(t *testing.T, b *fixture, binary string) {
	const atOnce = 8
	one := b.launch(t, binary, elected+fmt.Sprintf("concurrency: {start: %d, max: %d}\n", atOnce, atOnce))
	one.awaitReady("ok\n")
	s := b.mixed(t, 200)
	s.begin()
	if err := one.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	two := b.launch(t, binary, elected)
	two.awaitReady("ok\n")
	s.ended(200)
	from, err := b.SkipAudit(0)
	if err != nil {
		t.Fatal(err)
	}
	woken := time.Now()
	if err := one.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := one.exit(); code <= 0 || !strings.Contains(one.log.text(), "the lease was lost") {
		t.Errorf("exit code %d", code)
	}
	// A request that had passed the last check when the process was stopped may still be sent:
	// no check is one with the sending. Its precondition makes it harmless.
	var late []string
	if _, err := b.ReadAudit(from, func(e peers.AuditEvent) {
		if e.ObjectRef.Namespace == s.namespace && e.ObjectRef.Resource != "events" && (e.Verb == "delete" || e.Verb == "patch") &&
			e.RequestReceivedTimestamp.After(woken) {
			late = append(late, e.Verb+" "+e.RequestURI)
		}
	}); err != nil {
		t.Error(err)
	}
	if len(late) > atOnce {
		t.Errorf("it went on: %d requests, more than the %d that may be on their way at once: %v", len(late), atOnce, late)
	}
}

// The switches, as people use them.
func testControl(t *testing.T, b *fixture, binary string) {
	p := b.launch(t, binary, alone+"paused: true\n")
	p.awaitReady("ok (paused by configuration)")
	s := b.mixed(t, 10)
	s.begin()
	if _, err := p.ask(t.Context(), http.MethodPost, "/control/resume"); err == nil {
		t.Error("the configuration's switch counts")
	}
	p.configure(alone + "mode: nonsense\n")
	hangup := func() {
		if err := p.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hangup()
	await.Holds(t, patience, "the complaint", func(context.Context) error {
		if !strings.Contains(p.log.text(), "configuration rejected") {
			return fmt.Errorf("nothing is logged")
		}
		return nil
	})
	if all, _, err := s.left(t.Context(), "secret"); all != 10 || err != nil {
		t.Errorf("%d left, %v", all, err)
	}
	p.configure(alone)
	hangup()
	s.ended(10)
	for path, want := range map[string]string{
		"/metrics": "ebb_controller_deletions_total{type=\"secrets\"} ", "/decisions": `"reason": "owners_absent"`, "/types": `"type": "configmaps"`,
		"/readyz?verbose": "configmaps v1: synced", "/healthz": "ok",
		"/explain?apiVersion=v1&kind=ConfigMap&name=k&namespace=" + s.namespace: `"reason": "solid_owner"`,
	} {
		if text, err := p.ask(t.Context(), http.MethodGet, path); err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %v %.300s", path, err, text)
		}
	}
	text, err := p.ask(t.Context(), http.MethodPost, "/control/pause")
	if err != nil || !strings.Contains(text, "nothing is on its way") {
		t.Errorf("%q, %v", text, err)
	}
	p.resume() // it would outlive the process
	if _, err := p.ask(t.Context(), http.MethodPost, "/control/barrier/override"); err == nil {
		t.Error("nothing is held that could be overridden")
	}
}

// With the kube-controller-manager's collector active: redundant, and safe.
func testBeside(t *testing.T, b *fixture, binary string) {
	if err := b.ControllerManager.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := b.launch(t, binary, alone)
	p.awaitReady("ok\n")
	for range 3 {
		s := b.mixed(t, 60)
		s.begin()
		s.ended(60)
	}
	if err := b.ControllerManager.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
