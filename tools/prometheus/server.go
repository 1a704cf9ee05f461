package prometheus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// Server is a running Prometheus.
type Server struct {
	*daemon
	api v1.API
}

// Start starts Prometheus with the text of a configuration file, in dir, and returns
// once it is ready. Rule files are found relative to dir.
func Start(ctx context.Context, dir, config string) (*Server, error) {
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	d, err := startDaemon(ctx, filepath.Join(dir, "prometheus.log"), exec.Command("prometheus", "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0", "--query.lookback-delta=1m"))
	if err != nil {
		return nil, err
	}
	s := &Server{daemon: d}
	if s.api, err = newAPI(s.base); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Promtool runs promtool in a directory; its error includes the output.
func Promtool(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "promtool", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("promtool %v: %w\n%s", args, err, out)
	}
	return string(out), nil
}

// Lint runs "promtool check metrics" on the exposition of a program, and returns its
// complaints.
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

// lintFound is promtool's exit code for readable metrics that break a convention.
const lintFound = 3

// Missing returns the reason why these programs cannot be run here, or "".
func Missing() string {
	for _, name := range []string{"prometheus", "promtool", alertmanager, "amtool"} {
		if _, err := exec.LookPath(name); err != nil {
			return name + " is not installed (Debian's packages prometheus and prometheus-alertmanager; make test-tools)"
		}
	}
	return ""
}
