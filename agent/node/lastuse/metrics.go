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

// NewMetrics registers them.
func NewMetrics(f program.Factory) *Metrics {
	return &Metrics{
		tracked:    f.Gauge("layers_tracked", "Top layers of images whose uses the kernel stamps."),
		unresolved: f.Counter("layer_resolve_failures_total", "Layers whose directory could not be found yet; tried again later."),
		again:      f.Counter("images_repulled_total", "Images that came back within a day of their removal by ebb: each cost a pull."),
		againBytes: f.Counter("images_repulled_bytes_total", "What the removal of those had freed, as computed."),
	}
}
