package prometheus

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"

	"github.com/ebb-agent/ebb/tools/peers"
)

const alertmanager = "prometheus-alertmanager"

// Alertmanager is a running Alertmanager without cluster peers.
type Alertmanager struct{ *daemon }

// StartAlertmanager starts Alertmanager with a configuration file and returns once it is
// ready. It keeps everything in dir.
func StartAlertmanager(ctx context.Context, dir, config string) (*Alertmanager, error) {
	d, err := startDaemon(ctx, filepath.Join(dir, "alertmanager.log"), exec.Command(alertmanager, "--config.file="+config,
		"--storage.path="+dir, "--web.listen-address=127.0.0.1:0", "--cluster.listen-address="))
	return &Alertmanager{d}, err
}

// Alert is an alert in Alertmanager: its labels, and the fingerprints of the alerts that
// inhibit it.
type Alert struct {
	Labels      map[string]string `json:"labels"`
	Fingerprint string            `json:"fingerprint,omitempty"`
	Status      struct {
		State       string   `json:"state"`
		InhibitedBy []string `json:"inhibitedBy"`
	} `json:"status"`
	Receivers []struct {
		Name string `json:"name"`
	} `json:"receivers"`
}

// Post sends firing alerts, as Prometheus does.
func (a *Alertmanager) Post(ctx context.Context, labels ...map[string]string) error {
	var alerts []map[string]any
	for _, l := range labels {
		alerts = append(alerts, map[string]any{"labels": l})
	}
	return peers.Request(ctx, http.DefaultClient, http.MethodPost, a.base+"/api/v2/alerts", alerts, nil)
}

// Alerts returns all firing alerts.
func (a *Alertmanager) Alerts(ctx context.Context) (list []Alert, err error) {
	return list, peers.Request(ctx, http.DefaultClient, http.MethodGet, a.base+"/api/v2/alerts", nil, &list)
}

// Amtool runs amtool in a directory; its error includes the output.
func Amtool(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "amtool", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("amtool %v: %w\n%s", args, err, out)
	}
	return string(out), nil
}
