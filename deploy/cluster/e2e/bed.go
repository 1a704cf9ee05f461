package main

import (
	"bytes"
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

	"github.com/ebb-agent/ebb/tools/cluster"
)

const (
	namespace = "ebb-system"
	nodeName  = "ebb"

	// patience is for what takes seconds; pause, between two looks at what tells
	// nobody when it changes.
	patience = 4 * time.Minute
	pause    = 150 * time.Millisecond

	containerdSocket = "/run/containerd/containerd.sock"
	logs             = "/var/log/kubernetes"
)

// bed is the cluster, from the inside of its machine.
type bed struct {
	context.Context
	o     options
	notes *notes
	env   []string
	files string // a directory for what is made on the way

	before traces // of what is not ebb's
}

func newBed(ctx context.Context, o options) (*bed, error) {
	b := &bed{Context: ctx, o: o, notes: newNotes(os.Stdout), files: "/run/e2e"}
	b.env = append(os.Environ(),
		"PATH="+o.binaries+":"+os.Getenv("PATH"), "KUBECONFIG=/etc/kubernetes/admin.conf", "HOME=/tmp",
		"etcd_flags=--unsafe-no-fsync")
	return b, os.MkdirAll(b.files, 0o755)
}

// run runs a command and returns its output.
func (b *bed) run(name string, args ...string) (string, error) {
	return b.pipe(nil, name, args...)
}

// pipe runs a command that reads in.
func (b *bed) pipe(in io.Reader, name string, args ...string) (string, error) {
	path := name
	if !strings.Contains(name, "/") {
		if own := filepath.Join(b.o.binaries, name); exists(own) {
			path = own
		}
	}
	cmd := exec.CommandContext(b, path, args...)
	var stdout, stderr bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = b.env, in, &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err,
			tail(stderr.String()+stdout.String()))
	}
	return stdout.String(), nil
}

func (b *bed) kubectl(args ...string) (string, error) { return b.run("kubectl", args...) }

// get decodes what the API server has of one object, or of a list.
func (b *bed) get(out any, args ...string) error {
	text, err := b.kubectl(append([]string{"get", "--output=json"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		return fmt.Errorf("decode answer to get %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// apply hands objects to the API server.
func (b *bed) apply(manifest string) error {
	_, err := b.pipe(strings.NewReader(manifest), "kubectl", "apply", "--server-side", "--filename=-")
	return err
}

// provision runs steps of the script that sets a machine up.
func (b *bed) provision(args ...string) error {
	fixed := []string{
		"--bin", b.o.binaries, "--no-packages", "--start", "direct", "--node-name", nodeName,
		"--node-ip", cluster.NodeIP, "--cgroup-root", os.Getenv("EBB_CLUSTER_CGROUP"),
	}
	_, err := b.run("deploy/cluster/provision.sh", append(fixed, args...)...)
	return err
}

// eventually asks until the answer is no error.
func (b *bed) eventually(what string, ask func() error) error {
	return b.within(patience, what, ask)
}

func (b *bed) within(limit time.Duration, what string, ask func() error) error {
	ctx, cancel := context.WithTimeout(b, limit)
	defer cancel()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		last := ask()
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w; last answer: %w", what, ctx.Err(), last)
		case <-tick.C:
		}
	}
}

// rollout waits for a workload's pods to be those that it describes, and ready.
func (b *bed) rollout(workload string) error {
	_, err := b.kubectl("--namespace", namespace, "rollout", "status", workload, "--timeout=4m")
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// tail keeps an error readable.
func tail(text string) string {
	const most = 2000
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = "… " + text[len(text)-most:]
	}
	return text
}

var errNotYet = errors.New("not yet")

// notYet says what is still waited for.
func notYet(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errNotYet, fmt.Sprintf(format, args...))
}
