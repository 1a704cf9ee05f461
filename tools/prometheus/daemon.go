package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"syscall"

	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/process"
)

// daemon is a running Prometheus or Alertmanager.
type daemon struct {
	process *process.Process
	log     string
	base    string
}

// startDaemon starts a command, which listens on a port that the kernel chooses, and
// returns once it is ready.
func startDaemon(ctx context.Context, log string, cmd *exec.Cmd) (*daemon, error) {
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	p, err := process.StartLogged(cmd, log, nil)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Args[0], err)
	}
	d := &daemon{process: p, log: log}
	if err := d.awaitReady(ctx, cmd.Args[0]); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

var listening = regexp.MustCompile(`msg="Listening on" address=(127\.0\.0\.1:\d+)`)

func (d *daemon) awaitReady(ctx context.Context, name string) error {
	return d.process.Await(ctx, d.log, name+" to be ready", func(ctx context.Context) error {
		log, err := os.ReadFile(d.log)
		if err != nil {
			return err
		}
		match := listening.FindSubmatch(log)
		if match == nil {
			return errors.New("it does not listen")
		}
		d.base = "http://" + string(match[1])
		return peers.Request(ctx, http.DefaultClient, http.MethodGet, d.base+"/-/ready", nil, new(string))
	})
}

// URL is the base URL of its web server.
func (d *daemon) URL() string { return d.base }

// Close kills the process, and returns once it has ended.
func (d *daemon) Close() error {
	err := d.process.End(context.Background(), syscall.SIGKILL)
	http.DefaultClient.CloseIdleConnections()
	return err
}
