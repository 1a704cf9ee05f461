package prometheus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Server is a running Prometheus.
type Server struct {
	cmd   *exec.Cmd
	log   string
	base  string
	ended chan struct{}
}

// Start runs Prometheus with a configuration file's text, in a directory of its own,
// until it answers. Rule files are found relative to that directory.
func Start(ctx context.Context, dir, config string) (*Server, error) {
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	s := &Server{log: filepath.Join(dir, "prometheus.log"), ended: make(chan struct{})}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd = exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:0", "--query.lookback-delta=1m")
	s.cmd.Stderr = log
	s.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go s.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start prometheus: %w", err)
	}
	if err := s.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// run holds the thread that the child's life hangs on.
func (s *Server) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.ended)
	err := s.cmd.Start()
	started <- err
	if err == nil {
		_ = s.cmd.Wait() // how it ended is in its log
	}
}

var listening = regexp.MustCompile(`msg="Listening on" address=(127\.0\.0\.1:\d+)`)

func (s *Server) awaitReady(ctx context.Context) error {
	for {
		log, err := os.ReadFile(s.log)
		if err != nil {
			return err
		}
		if match := listening.FindSubmatch(log); match != nil {
			s.base = "http://" + string(match[1])
			if resp, err := http.Get(s.base + "/-/ready"); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					return nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("prometheus is not ready: %w; its log ends with %s", ctx.Err(), tail(log))
		case <-s.ended:
			log, err := os.ReadFile(s.log)
			return errors.Join(fmt.Errorf("prometheus ended; its log ends with %s", tail(log)), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func tail(log []byte) []byte { return bytes.TrimSpace(log[max(0, len(log)-2000):]) }

// URL of its web server.
func (s *Server) URL() string { return s.base }

// Close ends it, and returns when it is gone.
func (s *Server) Close() error {
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.ended
	http.DefaultClient.CloseIdleConnections()
	return nil
}

// Promtool runs promtool in a directory; its error carries what it said.
func Promtool(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "promtool", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("promtool %v: %w\n%s", args, err, out)
	}
	return string(out), nil
}

// Lint has promtool judge what a program exports, and returns its complaints.
func Lint(ctx context.Context, exposition string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(exposition)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == lintFound {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("promtool check metrics: %w\n%s", err, out)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), nil
}

// lintFound is promtool's exit code for metrics that can be read and break a convention.
const lintFound = 3

// Missing says why none of this can be run here; "" if it can.
func Missing() string {
	for _, name := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not installed (Debian's package prometheus; make test-tools)"
		}
	}
	return ""
}
