package lastuse

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/program"
)

// Metrics are those of last use.
type Metrics struct {
	tracked    prometheus.Gauge
	unresolved prometheus.Counter
	again      prometheus.Counter
	againBytes prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(f program.Factory) *Metrics {
	return &Metrics{
		tracked:    f.Gauge("layers_tracked", "Top layers of images whose uses the kernel records."),
		unresolved: f.Counter("layer_resolve_failures_total", "Times the directory of a layer could not be found. The agent tries again later."),
		again:      f.Counter("images_repulled_total", "Images that came back within a day of their removal by ebb. Each one cost a pull."),
		againBytes: f.Counter("images_repulled_bytes_total", "Bytes that were freed, as computed, by the removal of images that came back within a day."),
	}
}
