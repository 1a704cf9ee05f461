package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
	"github.com/ebb-agent/ebb/agent/show/showtest"
)

// deskCommands are those that ask agents.
var deskCommands = []string{"status", "nodes", "images", "why", "plan", "reclaim", "pause", "resume", "du", "top", "history"}

// TestExamples: what the help shows runs, on a cluster and on a node.
func TestExamples(t *testing.T) {
	c := newCluster(t, "worker-1", "worker-2", "worker-3")
	t.Chdir(t.TempDir())
	if err := os.WriteFile("new.yaml", []byte("mode: enforce\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range deskCommands {
		cmd, _, err := command(nil, nil).Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " | ")
			line, ok := strings.CutPrefix(line, "ebb ")
			if !ok {
				continue
			}
			ran++
			line = strings.ReplaceAll(strings.ReplaceAll(line, "/run/ebb/agent.sock", c.Serve(t)), `"kernel upgrade"`, "upgrade")
			at := newTerminal(t, 80, 24)
			at.typeIn(t, "y\n")
			want := 0
			if name == "top" {
				want = exitUsage // see TestTop
			}
			out, errs, code := call(t, at, line)
			if code != want || want == 0 && (out == "" || strings.Contains(errs, "ebb:")) {
				t.Errorf("%s: exit code %d\n%s%s", line, code, out, errs)
			}
			printable(t, out+errs)
		}
		if ran == 0 {
			t.Errorf("%s has no example", name)
		}
	}
}

func printable(t *testing.T, s string) {
	t.Helper()
	for _, r := range s {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%q comes out", r)
		}
	}
}

// TestDeskExitCodes: one table for all commands.
func TestDeskExitCodes(t *testing.T) {
	c := newCluster(t, "worker-1", "silent")
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		line string
		code int
		want string
	}{
		{"status", 4, "silent"},
		{"status --node worker-1", 0, "1 of 1 ready"},
		{"status --wait --wait-timeout 1ms", 4, "silent"},
		{"status --node nobody", 1, "no agent"},
		{"status -o xml", 2, "--output"},
		{"nodes", 4, "does not run"},
		{"nodes --node silent", 1, "node silent: "},
		{"nodes extra", 2, "extra"},
		{"images --sort colour", 2, "--sort"},
		{"images", 4, "postgres"},
		{"why postgres --node worker-1", 0, "Rules"},
		{"why postgres", 4, "silent"},
		{"why nothing-like-it --node worker-1", 1, "nothing-like-it"},
		{"why sha256: --node worker-1", 1, "ask for one of them"},
		{"why", 2, "arg"},
		{"plan --node worker-1 --free 1Gi", 0, "would be removed"},
		{"plan --free 20GB", 2, "--free"},
		{"plan --free -1", 2, "--free"},
		{"plan --to 101", 2, "--to"},
		{"plan --free 1Gi --to 5", 2, "none of the others can be"},
		{"plan --inodes", 2, "--inodes"},
		{"plan --config /nowhere.yaml", 1, "--config"},
		{"plan --config " + empty, 2, "empty"},
		{"plan --config " + empty + " --free 1Gi", 2, "none of the others can be"},
		{"reclaim --free 1Gi --node worker-1", 2, "no terminal"},
		{"reclaim --node worker-1 --yes", 2, "--free"},
		{"reclaim --free 1Gi --yes", 2, "--max-nodes"},
		{"reclaim --free 1Gi --yes --max-nodes 0", 2, "--max-nodes"},
		{"reclaim --free 1Gi -o json", 2, "--yes"},
		{"pause --for 1ms", 2, "--for"},
		{"pause --for 721h", 2, "--for"},
		{"pause --for 1h", 4, "1 node paused; unknown on 1 node"},
		{"resume", 4, "resumed"},
		{"resume --node worker-1", 0, "resumed"},
		{"du", 4, "writable layers"},
		{"history --since -1h", 2, "--since"},
		{"history --limit 0", 2, "--limit"},
		{"history --node worker-1 --since 3h", 0, "120m  image"}, // by the node's clock, which is not this machine's
		{"history --node worker-1 --image shop/web", 0, "shop/web-1/app"},
		{"top --node worker-1", 2, "ebb nodes"},
	} {
		out, errs, code := call(t, nil, test.line)
		if code != test.code || !strings.Contains(out+errs, test.want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s%s", test.line, code, test.code, test.want, out, errs)
		}
		printable(t, out+errs)
	}
	c.halted = "breaker-open"
	if out, _, code := call(t, nil, "status --node worker-1"); code != 3 || !strings.Contains(out, "halted (breaker-open)") {
		t.Errorf("the controller is halted: exit code %d\n%s", code, out)
	}
	c.halted = ""
	c.Status = showtest.Troubled()
	if out, _, code := call(t, nil, "status"); code != 3 {
		t.Errorf("findings: exit code %d\n%s", code, out)
	}
	c.Plan = showtest.Short()
	if out, _, code := call(t, nil, "plan --free 20Gi"); code != 3 || !strings.Contains(out, "What holds the rest") {
		t.Errorf("too much: exit code %d\n%s", code, out)
	}
}

// TestWait: status waits for what comes, not for what cannot.
func TestWait(t *testing.T) {
	c := newCluster(t, "worker-1")
	c.Become(showtest.Troubled())
	go func() {
		for len(c.Asked()) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		c.Become(showtest.Status())
	}()
	if out, errs, code := call(t, nil, "status --wait --wait-timeout 20s"); code != 0 || len(c.Asked()) < 2 {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	c.noExec = true
	if out, errs, code := call(t, nil, "status --wait --wait-timeout 30s"); code != int(exitIncomplete) || c.refused.Load() != 1 || !strings.Contains(out, "create and get on pods/exec in namespace ebb-system") {
		t.Errorf("exit code %d after %d refusals\n%s%s", code, c.refused.Load(), out, errs)
	}
	begun := time.Now()
	if _, errs, code := call(t, nil, "status --wait --kubeconfig /nowhere"); code != exitError || time.Since(begun) > lookAgain {
		t.Errorf("exit code %d after %s: %s", code, time.Since(begun), errs)
	}
}

// TestForbidden: what the API server does not let a person see is reported as unknown.
func TestForbidden(t *testing.T) {
	c := newCluster(t, "worker-1")
	c.forbidden = true
	out, _, code := call(t, nil, "status")
	if code != 0 || strings.Count(out, "unknown: ") != 3 || !strings.Contains(out, "Kubelets     unknown: the kubelet knows; to ask it needs get on nodes/proxy (1)\n") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if out, _, code := call(t, nil, "du"); code != 0 || !strings.Contains(out, "needs get on nodes/proxy") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestNoController: a cluster without a controller is no finding.
func TestNoController(t *testing.T) {
	newCluster(t, "worker-1").alone = true
	out, _, code := call(t, nil, "status")
	const others = "Kubelets     collect images from 85% (1)\nManager      does not collect objects: kube-system/kube-controller-manager-cp (--controllers=*,-garbage-collector-controller)\n"
	if code != 0 || !strings.Contains(out, "\nController   not installed\n"+others) {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestNoAgents: a cluster may have a controller alone. That neither has a pod is an error, and --wait waits for
// agents.
func TestNoAgents(t *testing.T) {
	c := newCluster(t)
	for line, want := range map[string]string{"status": "Agents       none\nController   1 of 2 pods ready; ", "version --agents": "\nCONTROLLER ", "status --wait --wait-timeout 1ms": "Agents       none\n"} {
		if out, errs, code := call(t, nil, line); code != 0 || !strings.Contains(out, want) || strings.Contains(out, "NODE") {
			t.Errorf("%s: exit code %d\n%s%s", line, code, out, errs)
		}
	}
	c.alone = true
	for _, line := range []string{"status", "version --agents"} {
		if out, errs, code := call(t, nil, line); code != exitError || !strings.Contains(errs, "no agent's pod in namespace ebb-system") {
			t.Errorf("%s: exit code %d\n%s%s", line, code, out, errs)
		}
	}
}

// TestManagerAtRisk: a storage version migration ends a kube-controller-manager whose collector is off.
func TestManagerAtRisk(t *testing.T) {
	newCluster(t, "worker-1").migrates = true
	out, _, code := call(t, nil, "status")
	if code != int(exitFindings) || !strings.Contains(out, "At risk      kube-system/kube-controller-manager-cp: storagemigration.k8s.io is served") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// TestOutputs: each command in each form.
func TestOutputs(t *testing.T) {
	newCluster(t, "worker-1", "worker-2")
	for line, name := range map[string]string{
		"status": "node/worker-1", "nodes": "node/worker-2", "images": "docker.io/library/busybox:1.36", "why postgres": "docker.io/library/postgres:15",
		"plan": "docker.io/library/postgres:15", "pause": "node/worker-1", "resume": "node/worker-2", "du": "docker.io/library/postgres:15", "history": "shop/web-1/app",
	} {
		out, _, code := call(t, nil, line+" -o name")
		if code != 0 || !slices.Contains(strings.Split(out, "\n"), name) {
			t.Errorf("%s: exit code %d\n%s", line, code, out)
		}
		out, _, code = call(t, nil, line+" -o json")
		var d struct {
			Format int
			Nodes  []map[string]any
		}
		if err := json.Unmarshal([]byte(out), &d); code != 0 || err != nil || d.Format != 1 || len(d.Nodes) != 2 || d.Nodes[1]["node"] != "worker-2" {
			t.Errorf("%s: exit code %d, %v\n%s", line, code, err, out)
		}
		printable(t, out)
		out, _, code = call(t, nil, line+" -o yaml")
		if code != 0 || !strings.Contains(out, "format: 1\n") {
			t.Errorf("%s: exit code %d\n%s", line, code, out)
		}
		printable(t, out)
	}
}

// TestReclaimInterrupted: Ctrl-C at the question ends the command.
func TestReclaimInterrupted(t *testing.T) {
	typed, keyboard := io.Pipe()
	defer keyboard.Close()
	ctx, cancel := context.WithCancel(t.Context())
	r := &reclaimer{in: bufio.NewReader(typed), out: io.Discard, err: io.Discard}
	cancel()
	if agreed, err := r.agreed(ctx, []candidate{{}}); agreed || !errors.Is(err, context.Canceled) {
		t.Errorf("agreed: %v, %v", agreed, err)
	}
}

// TestReclaim: what is done is what was shown, and agreed to.
func TestReclaim(t *testing.T) {
	other := showtest.Plan()
	other.Digest, other.Remove = "sha256:d2", append([]page.Image{showtest.Shared()}, other.Remove...)
	const one = "reclaim --node worker-1 --free 1Gi"
	for _, test := range []struct {
		name, line, typed string
		set               func(*cluster)
		code              int
		want              []string
		reclaims          int
	}{
		{"agreed", one, "y\n", nil, 0, []string{"[y/N]", "1/1  docker.io/library/postgres:15  removed, 1.5GiB freed", "worker-1: done; 1 of 1 image removed"}, 1},
		{"declined", one, "\n", nil, 1, []string{"Nothing was removed."}, 0},
		{"end of input", one, "\x04", nil, 1, []string{"Nothing was removed."}, 0},
		{"yes", one + " --yes", "", nil, 0, []string{"done"}, 1},
		{"json", one + " --yes -o json", "", nil, 0, []string{`"result": "done"`}, 1},
		{"changed and agreed", one, "y\ny\n", func(c *cluster) { c.Next = []page.Plan{other} }, 0, []string{"another one now", "2 of 2 images removed"}, 2},
		{"changed and declined", one, "y\nn\n", func(c *cluster) { c.Next = []page.Plan{other} }, 1, []string{"another one now", "Nothing was removed."}, 1},
		{"changed with yes", one + " --yes", "", func(c *cluster) { c.Next = []page.Plan{other} }, 1, []string{"busybox", "nothing was removed; ask again"}, 1},
		{"nothing goes", one, "", func(c *cluster) { c.Plan.Remove = nil }, 0, []string{"No image goes"}, 0},
		{"too much", one, "", func(c *cluster) { c.Plan = showtest.Short(); c.Plan.Remove = nil }, 3, []string{"at most", "No image goes"}, 0},
		{"refused", one + " --yes", "", func(c *cluster) { c.Busy = "somebody has asked for a run" }, 1, []string{"not begun: somebody has asked"}, 1},
		{"cut", one + " --yes", "", func(c *cluster) {
			c.Cut, c.Events = true, `{"event":"begun","of":3}`+"\n"+`{"event":"removed","id":"sha256:1","freedBytes":4096,"removed":1,"of":3}`+"\n"
		}, 4, []string{"unknown; 1 of 3 images removed, 4KiB freed", "ebb history --node worker-1"}, 1},
		{"failed", one + " --yes", "", func(c *cluster) {
			c.Events = `{"event":"failed","id":"sha256:1","reason":"busy","of":1}` + "\n" + `{"event":"ended","of":1,"result":"incomplete"}` + "\n"
		}, 1, []string{"not removed: busy", "1 failed"}, 1},
		{"short", one + " --yes", "", func(c *cluster) { c.Events = `{"event":"ended","removed":1,"of":1,"result":"short"}` + "\n" }, 3, []string{"it is not enough"}, 1},
		{"many", "reclaim --to 60 --max-nodes 7 --yes", "", nil, 0, []string{"7 of 7 nodes done: 7 images removed", "worker-3  1/1  "}, 7},
		{"many named", "reclaim --to 60 --node worker-1,worker-2", "y\n", nil, 0, []string{"from 2 nodes?", "2 of 2 nodes done"}, 2},
		{"observes", one, "", func(c *cluster) { c.Plan.Mode = "observe" }, 1, []string{"worker-1 is left out: its agent runs in mode observe", "nothing was removed"}, 0},
		{"paused", one, "", func(c *cluster) { c.Plan.Paused = &page.Pause{Until: showtest.Now} }, 1, []string{"worker-1 is left out: its agent is paused until"}, 0},
		{"one is silent", "reclaim --node worker-1,silent --to 60 --yes", "", func(c *cluster) { c.nodes = append(c.nodes, "silent") }, 4, []string{"silent: no answer, and nothing was begun", "1 of 2 nodes done"}, 1},
		{"one is silent, json", "reclaim --node worker-1,silent --to 60 --yes -o json", "", func(c *cluster) { c.nodes = append(c.nodes, "silent") }, 4, []string{`"result": "no answer"`}, 1},
		{"nothing goes, json", one + " --yes -o json", "", func(c *cluster) { c.Plan.Remove = nil }, 0, []string{`"nodes": []`}, 0},
		{"all plans are shown", "reclaim --to 60 --max-nodes 7", "n\n", nil, 1, []string{"worker-7: 1 image would be removed"}, 0},
		{"many, all changed", "reclaim --to 60 --max-nodes 7 --yes", "", func(c *cluster) { c.Next = []page.Plan{other, other, other, other, other, other, other} }, 1, []string{"its plan is another one now"}, 7},
		{"many, one fails", "reclaim --to 60 --max-nodes 9 --yes", "", func(c *cluster) { c.Busy = "no" }, 1, []string{"not begun: no", "0 of 9 nodes done"}, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t, "worker-1", "worker-2", "worker-3", "worker-4", "worker-5", "worker-6", "worker-7", "worker-8", "worker-9")
			if test.set != nil {
				test.set(c)
			}
			at := newTerminal(t, 80, 24)
			at.typeIn(t, test.typed)
			out, errs, code := call(t, at, test.line)
			if code != test.code {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			for _, want := range test.want {
				if !strings.Contains(out+errs, want) {
					t.Errorf("no %q in\n%s%s", want, out, errs)
				}
			}
			begun := 0
			for _, r := range c.Asked() {
				if strings.HasPrefix(r, "POST /reclaim") {
					begun++
				}
			}
			if begun != test.reclaims && test.reclaims >= 0 || test.reclaims < 0 && begun > nodesAtOnce {
				t.Errorf("%d runs: %q", begun, c.Asked())
			}
			printable(t, out+errs)
		})
	}
}

// TestReclaimRest: nodes that were asked for, and on which nothing is begun, count.
func TestReclaimRest(t *testing.T) {
	observing, paused, empty, fine := showtest.Plan(), showtest.Plan(), showtest.Short(), showtest.Plan()
	observing.Mode, paused.Paused, empty.Remove = "observe", &page.Pause{}, nil
	enough := empty
	enough.Hold = nil
	for name, test := range map[string]struct {
		other desk.Result[page.Plan]
		code  error
	}{
		"observes":          {desk.Result[page.Plan]{Value: observing}, exitCode(exitError)},
		"paused":            {desk.Result[page.Plan]{Value: paused}, exitCode(exitError)},
		"silent":            {desk.Result[page.Plan]{Err: errors.New("no")}, exitIncomplete},
		"nothing to remove": {desk.Result[page.Plan]{Value: empty}, exitFindings},
		"nothing needed":    {desk.Result[page.Plan]{Value: enough}, nil},
	} {
		for most, want := range map[int]error{0: test.code, 2: nil} {
			if name == "silent" {
				want = exitIncomplete
			}
			r := &reclaimer{most: most, out: io.Discard, err: io.Discard}
			chosen, _ := r.choose([]desk.Result[page.Plan]{test.other, {Value: fine}})
			if len(chosen) != 1 {
				t.Errorf("%s: chosen %v", name, chosen)
			}
			if err := r.ended([]show.Run{{Result: "done"}}); !errors.Is(err, want) {
				t.Errorf("%s, at most %d: %v, not %v", name, most, err, want)
			}
		}
	}
}

// TestTop: it draws in a narrow terminal, looks again, and leaves the terminal as it was.
func TestTop(t *testing.T) {
	for _, quit := range []string{"q", "\x03"} {
		c := newCluster(t, "worker-1")
		at := newTerminal(t, 40, 20)
		before, err := termios(at.far)
		if err != nil {
			t.Fatal(err)
		}
		cmd := command(at.far, at.far)
		cmd.SetIn(at.far)
		ended := make(chan error, 1)
		go func() { ended <- execute(t.Context(), cmd, []string{"top", "--node", "worker-1"}) }()
		await(t, func() bool { return strings.Contains(at.text(), "MiB/s") }) // from the second look on
		at.typeIn(t, quit)
		if err := <-ended; err != nil {
			t.Errorf("%q: %v", quit, err)
		}
		if after, err := termios(at.far); err != nil || after != before {
			t.Errorf("%q: the terminal is another one: %v", quit, err)
		}
		await(t, func() bool { return strings.HasSuffix(at.text(), "\x1b[?25h\x1b[?1049l") })
		for frame := range strings.SplitSeq(strings.TrimPrefix(at.text(), "\x1b[?1049h\x1b[?25l"), "\x1b[H") {
			frame = strings.NewReplacer("\x1b[K", "", "\x1b[J", "", "\x1b[?25h\x1b[?1049l", "", "\r", "", "\x1b[31m", "", "\x1b[0m", "").Replace(frame)
			printable(t, frame)
			for line := range strings.SplitSeq(frame, "\n") {
				if n := len([]rune(line)); n > 40 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
		}
		images := 0
		for _, r := range c.Asked() {
			if strings.HasPrefix(r, "GET /images") {
				images++
			}
		}
		if images != 1 {
			t.Errorf("asked %d times for images", images)
		}
	}
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it never came")
		}
	}
}

// TestCompletion: shells offer nodes and images, and nothing that they would show wrongly.
func TestCompletion(t *testing.T) {
	newCluster(t, "worker-1", "silent")
	for line, want := range map[string]string{
		"__complete why docker.io/library/b":             "docker.io/library/busybox:1.36\n:4\n",
		"__complete why --node worker-1 registry.int":    showtest.Busy().References[0] + "\n:4\n",
		"__complete nodes --node ":                       "silent\nworker-1\n:4\n",
		"__complete doctor --node ":                      "silent\nworker-1\n:4\n",
		"__complete sysdump --node ":                     "silent\nworker-1\n:4\n",
		"__complete images --sort ":                      "used\nsize\nown\nname\nfreed\n:4\n",
		"__complete why --kubeconfig /nowhere docker.io": ":4\n",
	} {
		args := strings.Split(line, " ")
		var out strings.Builder
		if err := execute(t.Context(), command(&out, &strings.Builder{}), args); err != nil || out.String() != want {
			t.Errorf("%s: %v\n%s", line, err, out.String())
		}
	}
}

// TestPlugin: kubectl's users see what they type.
func TestPlugin(t *testing.T) {
	var out strings.Builder
	cmd := command(&out, &out)
	asPlugin(cmd)
	if err := execute(t.Context(), cmd, []string{"why", "--help"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kubectl ebb why IMAGE [flags]", "  kubectl ebb why busybox"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	cmd.InitDefaultCompletionCmd()
	var unnamed func(*cobra.Command)
	unnamed = func(c *cobra.Command) {
		if strings.Contains(c.Example, "  ebb ") {
			t.Errorf("%s: %s", c.Name(), c.Example)
		}
		for _, child := range c.Commands() {
			unnamed(child)
		}
	}
	unnamed(cmd)
}
