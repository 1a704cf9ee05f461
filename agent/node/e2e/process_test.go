package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/node"
)

// runToEnd runs the agent with a configuration file and returns its output,
// once it has ended with status 1.
func runToEnd(t *testing.T, text string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: the agent is built only for root's tests")
	}
	file := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, output, code := buildtest.Run(t, exec.CommandContext(t.Context(), binary, "--config", file))
	if code != 1 {
		t.Fatalf("the agent ended with status %d, not 1; its output:\n%s", code, output)
	}
	return output
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	output := runToEnd(t, `
mode: destroy
images:
  imageGCHighThresholdPercent: 60
  imageGCLowThresholdPercent: 70
  imageMaximumGCAge: soon
  keep: [""]
  imageGCHighTresholdPercent: 80
server:
  address: nowhere
runtime:
  socket: relative.sock
`)
	for _, field := range []string{
		"mode", "images.imageGCLowThresholdPercent", "images.imageMaximumGCAge", "images.keep[0]",
		"images.imageGCHighTresholdPercent", "server.address", "runtime.socket",
	} {
		if !strings.Contains(output, field+":") {
			t.Errorf("%s is not mentioned in:\n%s", field, output)
		}
	}
	if output := runToEnd(t, "images: ["); !strings.Contains(output, "agent.yaml") {
		t.Errorf("the file is not named in: %s", output)
	}
}

// TestSecondAgent: two agents on one node would each remove what is needed. The
// second reports who was first. Whoever names another lock file is still not alone with
// the kernel programs, or the state.
func TestSecondAgent(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian)
	b.start()
	first, ok := b.agent.(*agentrun.Process)
	if !ok {
		t.Fatalf("the agent is no process, but %T", b.agent)
	}
	text := func(change func(*config.Config)) string {
		c := b.config
		change(&c)
		var s strings.Builder
		b.must(config.Print(&s, c))
		return s.String()
	}
	output := runToEnd(t, text(func(c *config.Config) {
		c.State.Directory += "2"
		c.Kernel.Enabled = false
	}))
	for _, want := range []string{
		"another ebb-agent runs on this node", fmt.Sprint("pid ", first.PID(), ","), "since 20", b.config.State.LockFile,
	} {
		if !strings.Contains(output, want) {
			t.Errorf("same lock file: %q is not in: %s", want, output)
		}
	}
	elsewhere := b.config.State.LockFile + "2"
	if output := runToEnd(t, text(func(c *config.Config) { c.State.LockFile = elsewhere; c.State.Directory += "2" })); !strings.Contains(output, "kernel.pinDirectory") || !strings.Contains(output, "in use by another process") {
		t.Errorf("same pin directory: %s", output)
	}
	if output := runToEnd(t, text(func(c *config.Config) { c.State.LockFile = elsewhere; c.Kernel.Enabled = false })); !strings.Contains(output, "state.db") || !strings.Contains(output, "in use by another process") {
		t.Errorf("same state directory: %s", output)
	}
	b.awaitReady() // the first one minds none of them
	b.kill()
	b.start() // a killed one is in nobody's way
}

// TestLockNotWritable: whoever cannot know whether he is alone does not begin, and
// reports the cause and the fix.
func TestLockNotWritable(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian)
	dir := filepath.Dir(b.config.State.LockFile)
	b.must(os.MkdirAll(dir, 0o700))
	b.must(unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "size=1m")) // unmounted with the node
	var text strings.Builder
	b.must(config.Print(&text, b.config))
	output := runToEnd(t, text.String())
	for _, want := range []string{b.config.State.LockFile, "read-only file system", "state.lockFile"} {
		if !strings.Contains(output, want) {
			t.Errorf("%q is not in: %s", want, output)
		}
	}
}

// TestStopped: SIGTERM ends the agent, also in the middle of a run,
// which the next agent takes up.
func TestStopped(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 8)...)
	b.start()
	b.use("a3", "a6", "a1", "a5", "a0", "a4", "a2", "a7")
	b.awaitOrder()
	mark := b.journal.mark()
	b.cross()
	for range 3 {
		b.journal.await(t, mark, "image removed")
		b.stop() // reports a status other than 0, or none within the grace that a pod has
		b.start()
	}
	b.eventually("a low disk", b.notLow)
	b.checkGone()
}

// TestStoppedWhileRuntimeHangs: a runtime that has stopped answering does not
// keep the agent from ending.
func TestStoppedWhileRuntimeHangs(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 3)...)
	b.config.Runtime.Socket = b.fakeSocket()
	r := b.startRelay(b.fakeSocket())
	b.start()
	b.use("a0", "a1", "a2")
	b.awaitOrder() // all layers are resolved: the agent holds a lease
	r.Freeze()
	b.fill(85) // so that the agent is waiting for an answer when the test stops it
	b.stop()
}
