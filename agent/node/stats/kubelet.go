package stats

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/runtime/wait"
)

// KubeletPause is the time between two questions to the kubelet, which reads its settings only when it
// starts.
const KubeletPause = 10 * time.Minute

// kubeletRetry is the first pause after a question that failed. The next ones are each twice as long, up to
// KubeletPause.
const kubeletRetry = time.Minute

// KubeletSettings is a source of pods that also knows the kubelet's settings.
type KubeletSettings interface {
	ImageGCHighThreshold(ctx context.Context) (percent int, err error)
}

// Kubelet exports when the kubelet itself removes images, for alerts on nodes where no program does.
type Kubelet struct {
	log   *slog.Logger
	ratio *prometheus.GaugeVec // without labels; no series while not known
}

// NewKubelet registers the metric. It has the configured percentage until a kubelet answers; no value if
// that is 0.
func NewKubelet(r *prometheus.Registry, configured int, log *slog.Logger) *Kubelet {
	f := program.Factory{Registry: r, Subsystem: "node"}
	k := &Kubelet{log: log, ratio: f.Gauges("kubelet_image_gc_threshold_ratio",
		"The kubelet's own imageGCHighThresholdPercent, from 0 to 1. At 1 the kubelet removes no images for space. As configured (kubelet.imageGCHighThresholdPercent), or as the kubelet answers: with pods.source kubelet, and the right to get nodes/configz.")}
	if configured > 0 {
		k.ratio.WithLabelValues().Set(float64(configured) / 100)
	}
	return k
}

// Run asks the kubelet until ctx ends. The latest answer holds while the kubelet gives none.
func (k *Kubelet) Run(ctx context.Context, kubelet KubeletSettings) error {
	pause := KubeletPause
	for failed := false; ; {
		percent, err := kubelet.ImageGCHighThreshold(ctx)
		switch {
		case err == nil:
			k.ratio.WithLabelValues().Set(float64(percent) / 100)
		case !failed && ctx.Err() == nil:
			k.log.Info("the kubelet's image threshold is not known; only alerts depend on it", "error", err)
		}
		switch {
		case err == nil:
			pause = KubeletPause
		case !failed:
			pause = kubeletRetry
		default:
			pause = min(2*pause, KubeletPause)
		}
		failed = err != nil
		if !wait.Sleep(ctx, pause) {
			return nil
		}
	}
}
