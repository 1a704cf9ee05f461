package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/cluster"
	"github.com/ebb-agent/ebb/tools/process"
)

const (
	namespace = "ebb-system"
	nodeName  = "ebb"

	// patience bounds waits for what usually takes seconds.
	patience = 4 * time.Minute

	containerdSocket = "/run/containerd/containerd.sock"
	logs             = "/var/log/kubernetes"
)

// fixture is the cluster, seen from inside its machine.
type fixture struct {
	context.Context
	o     options
	notes *notes
	env   []string
	files string // directory for temporary files

	tree     string // the working copy in which a reader of the pages types
	shellEnv []string
	progress progress

	controlled bool // whether the controller is installed

	before traces // on the node before ebb was installed
}

func newFixture(ctx context.Context, o options) (*fixture, error) {
	b := &fixture{Context: ctx, o: o, notes: newNotes(os.Stdout), files: "/run/e2e", progress: progress{ran: map[string]bool{}}}
	b.env = append(os.Environ(),
		"PATH="+o.binaries+":"+os.Getenv("PATH"), "KUBECONFIG=/etc/kubernetes/admin.conf", "HOME=/tmp",
		"etcd_flags=--unsafe-no-fsync", "scrape_interval=1s")
	wd, err := os.Getwd()
	// The transcript does not depend on where the tree and the caches are.
	b.notes.shown = strings.NewReplacer(b.o.binaries, "bin/cluster", wd+"/", "")
	return b, errors.Join(err, os.MkdirAll(b.files, 0o755))
}

// run runs a command and returns its output.
func (b *fixture) run(name string, args ...string) (string, error) {
	return b.pipe(nil, name, args...)
}

// pipe runs a command with in as its stdin, and returns its output.
func (b *fixture) pipe(in io.Reader, name string, args ...string) (string, error) {
	path := name
	if own := filepath.Join(b.o.binaries, name); !strings.Contains(name, "/") && exists(own) {
		path = own
	}
	cmd := exec.CommandContext(b, path, args...)
	cmd.Env, cmd.Stdin, cmd.WaitDelay = b.env, in, time.Second
	out, err := process.Output(cmd)
	if err != nil {
		return out, fmt.Errorf("%w%s", err, tail(out))
	}
	return out, nil
}

func (b *fixture) kubectl(args ...string) (string, error) { return b.run("kubectl", args...) }

// get decodes one object or a list from the API server into out.
func (b *fixture) get(out any, args ...string) {
	must(json.Unmarshal([]byte(need(b.kubectl(append([]string{"get", "--output=json"}, args...)...))), out))
}

// apply applies objects server-side.
func (b *fixture) apply(manifest string) {
	need(b.pipe(strings.NewReader(manifest), "kubectl", "apply", "--server-side", "--filename=-"))
}

// provision runs steps of provision.sh, the script that sets up a machine.
func (b *fixture) provision(args ...string) {
	fixed := []string{
		"--bin", b.o.binaries, "--no-packages", "--start", "direct", "--node-name", nodeName,
		"--node-ip", cluster.NodeIP, "--cgroup-root", os.Getenv("EBB_CLUSTER_CGROUP"),
	}
	args = append(fixed, args...)
	b.notes.command("deploy/cluster/provision.sh " + strings.Join(args, " "))
	need(b.run("deploy/cluster/provision.sh", args...))
}

// eventually calls ask until it returns no error, for at most patience.
func (b *fixture) eventually(what string, ask func() error) {
	ctx, cancel := context.WithTimeout(b, patience)
	defer cancel()
	must(await.Until(ctx, what, func(context.Context) error { return ask() }))
}

// rollout waits until all pods of a workload match its template and are ready.
func (b *fixture) rollout(workload string) {
	need(b.kubectl("--namespace", namespace, "rollout", "status", workload, "--timeout=4m"))
}

// failure ends a scenario, as Fatal does a test.
type failure struct{ error }

func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// need returns v, or ends the scenario with err.
func need[T any](v T, err error) T {
	must(err)
	return v
}

func fail(format string, args ...any) { must(fmt.Errorf(format, args...)) }

// attempt runs a scenario and returns the error that ended it, if any.
func attempt(scenario func()) (err error) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			err = f.error
		default:
			panic(f)
		}
	}()
	scenario()
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// tail returns the end of a text, short enough for an error.
func tail(text string) string {
	const most = 2000
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = "… " + text[len(text)-most:]
	}
	return text
}
