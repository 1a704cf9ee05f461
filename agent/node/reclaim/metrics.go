package reclaim

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/image"
)

// Results of a run, as the metric has them.
const (
	resultLow        = "low_reached" // the disk is at or below its low threshold
	resultAge        = "age_done"    // the images over their maximum age are gone
	resultHold       = "hold"        // all images that may go are gone, and that is not enough
	resultAgeCapped  = "age_capped"  // ageRemovalsPerHourPercent is used up, and the disk needs no space
	resultCapped     = "capped"      // maxRemovalsPerHour is used up
	resultShortfall  = "shortfall"   // computed sizes reach the low threshold; the disk does not show it yet
	resultIncomplete = "incomplete"  // removals failed or images came into use; tried again later
	resultObserved   = "observed"    // mode observe: nothing is removed
	resultPaused     = "paused"      // a person has paused the agent
	resultDone       = "done"        // the space that was asked for is available
	resultShort      = "short"       // the images that were shown are gone, and that is not enough
)

// results are all results of a run.
var results = []string{
	resultLow, resultAge, resultAgeCapped, resultHold, resultCapped, resultShortfall, resultIncomplete, resultObserved, resultPaused, resultDone, resultShort,
}

// keptReasons are the reasons for which an image stays.
var keptReasons = []image.Reason{
	image.KeptBlocked, image.KeptInUse, image.KeptWanted, image.KeptPinned, image.KeptSandbox, image.KeptByRule,
	image.KeptUseUnknown, image.KeptPodsUnknown, image.KeptYoung, image.KeptFailed, image.KeptNotNeeded, image.KeptFreesNothing, image.KeptFutile, image.KeptHold,
}

var removedReasons = []image.Reason{image.RemovedThreshold, image.RemovedAge, image.RemovedAsked}

// metrics are those of plans and of runs. The sets of labels are bounded. Every counter exists from the
// start.
type metrics struct {
	images    *prometheus.GaugeVec
	spaceHeld *prometheus.GaugeVec
	holding   prometheus.Gauge
	holders   []string // the labels that spaceHeld has

	runs       *prometheus.CounterVec
	removed    *prometheus.CounterVec
	failures   prometheus.Counter
	spared     prometheus.Counter
	mended     prometheus.Counter
	freedBytes prometheus.Counter
	reaction   prometheus.Histogram
}

func newMetrics(r *prometheus.Registry) *metrics {
	f := program.Factory{Registry: r, Subsystem: "node"}
	m := &metrics{
		images:    f.Gauges("images", "Images by the verdict of the latest decision.", "state"),
		spaceHeld: f.Gauges("reclaim_held_bytes", "While reclaim_holding is 1: bytes that each holder keeps on the filesystems with images. Only holders that keep some.", "holder"),
		holding:   f.Gauge("reclaim_holding", "1 during a hold: the low threshold cannot be reached, and the agent waits for a change. 0 while it is not known of some images whether they are used."),

		runs:       f.Counters("reclaim_runs_total", "Reclaim runs, by result.", "result"),
		removed:    f.Counters("images_removed_total", "Images removed, by reason.", "reason"),
		failures:   f.Counter("image_removal_failures_total", "Removals of images that the runtime refused."),
		spared:     f.Counter("image_removals_skipped_total", "Images that stayed because the check right before their removal found that they are needed."),
		mended:     f.Counter("images_restored_total", "Images whose names were restored, because their removal had begun and never ended."),
		freedBytes: f.Counter("image_freed_bytes_total", "Bytes by which the available space of the filesystem over its high threshold grew during removals, as measured. At most the computed size counts, because others may delete at the same time."),
		reaction: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "ebb", Subsystem: "node", Name: "reclaim_reaction_duration_seconds",
			Help:    "Seconds from the write that crossed the high threshold to the end of the first removal.",
			Buckets: []float64{.05, .1, .25, .5, 1, 5, 30, 300},
		}),
	}
	r.MustRegister(m.reaction)
	m.zero()
	return m
}

// zero creates every series, so that a rate over it is correct from the start.
func (m *metrics) zero() {
	for _, r := range keptReasons {
		m.images.WithLabelValues(string(r))
	}
	for _, r := range removedReasons {
		m.images.WithLabelValues(string(r))
		m.removed.WithLabelValues(string(r))
	}
	for _, result := range results {
		m.runs.WithLabelValues(result)
	}
}

// freed counts a removed image, and the bytes that it freed.
func (m *metrics) freed(reason image.Reason, bytes uint64) {
	m.removed.WithLabelValues(string(reason)).Inc()
	m.freedBytes.Add(float64(bytes))
}

// held exports what holds the space, summed over all filesystems on hold; a nil hold is none. A scrape
// during the update sees old figures or new ones.
func (m *metrics) held(holds ...*image.Hold) {
	space, holding := make(map[string]uint64), false
	for _, h := range holds {
		if h == nil || !h.Final() { // images that cannot be judged may do: then a full disk is still an alarm
			continue
		}
		holding = true
		for _, s := range h.Space {
			space[s.By] += s.Bytes
		}
	}
	m.holding.Set(program.Bool(holding))
	for _, by := range m.holders {
		if space[by] == 0 {
			m.spaceHeld.DeleteLabelValues(by)
		}
	}
	m.holders = m.holders[:0]
	for by, bytes := range space {
		if bytes > 0 {
			m.spaceHeld.WithLabelValues(by).Set(float64(bytes))
			m.holders = append(m.holders, by)
		}
	}
}

// decided counts the images by verdict.
func (m *metrics) decided(p image.Plan) {
	count := make(map[image.Reason]int)
	for _, d := range p.Keep {
		count[d.Reason]++
	}
	for _, d := range p.Remove {
		count[d.Reason]++
	}
	for _, reasons := range [][]image.Reason{removedReasons, keptReasons} {
		for _, r := range reasons {
			m.images.WithLabelValues(string(r)).Set(float64(count[r]))
		}
	}
}
