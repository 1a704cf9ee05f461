package node

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/bpf"
)

// HeatExplanation answers "how much of the images is ever read".
type HeatExplanation struct {
	Time    time.Time   `json:"time"`
	Unknown string      `json:"unknown,omitempty"` // why the answer is empty
	Tier    string      `json:"tier"`              // one of bpf.HeatTiers
	Sees    string      `json:"sees"`              // what counts as reading a file
	Images  []ImageHeat `json:"images"`
}

// tierSees says what each tier takes for reading.
var tierSees = map[string]string{
	bpf.HeatByFentry: "files that are opened",
	bpf.HeatByKprobe: "files that are opened",
	bpf.HeatByPages:  "files that are executed or mapped; not those that are only read",
	bpf.HeatByReads:  "files that are executed, mapped or read",
	bpf.HeatNone:     "nothing",
}

func (a *Agent) explainHeat() HeatExplanation {
	e := HeatExplanation{Time: a.wall(), Tier: bpf.HeatNone, Images: []ImageHeat{}}
	h := a.metrics.heat.Load()
	switch {
	case a.probes == nil:
		e.Unknown = a.noProbes.Error()
	case h == nil:
		e.Unknown = "switched off by kernel.layerHeat"
	default:
		list, err := h.read(a.wallAt)
		if err != nil {
			e.Unknown = err.Error()
		}
		e.Tier, _ = a.probes.HeatTier()
		e.Images = append(e.Images, list...)
	}
	e.Sees = tierSees[e.Tier]
	return e
}

// wallAt is a moment of CLOCK_BOOTTIME by the wall clock as it stands.
func (a *Agent) wallAt(bootNS uint64) time.Time {
	return a.wall().Add(time.Duration(bootNS) - a.boot()).Round(time.Millisecond)
}

// whatIsRead serves /heat.
func (a *Agent) whatIsRead(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(a.explainHeat()); err != nil {
		a.log.Debug("answer /heat", "error", err) // the client went away
	}
}

var (
	descHeatTier = desc("layer_heat_tier", "1 for the way in which reads of image layers are seen: fentry and kprobe see files being opened, pages those that are executed or mapped, reads also those that are read.", "tier")
	descHeatRead = desc("image_read_percent", "Images by how much of their bytes was ever read, where that is known; once for each namespace and snapshotter they are unpacked in.")
	descHeatHave = desc("layer_bytes", "What the layers of all images take, as the runtime measured it; shared ones once.")
	descHeatWarm = desc("layer_read_bytes", "Of these, the files that containers ever read.")
	descHeatFile = desc("layer_read_files", "How many files these are.")
	descHeatGaps = desc("layers_unread_unknown", "Layers whose reads are not known in full: not resolved yet, in no container's root that was seen, or more files than can be remembered.")
)

// heatBuckets bound the histogram of images, in percent.
var heatBuckets = []float64{0, 1, 5, 10, 25, 50, 75, 90, 100}

// heatCollector reads the kernel's counts when it is scraped. No series is named
// after anything on the node.
type heatCollector struct{ m *Metrics }

func (c *heatCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descHeatTier, descHeatRead, descHeatHave, descHeatWarm, descHeatFile, descHeatGaps} {
		out <- d
	}
}

func (c *heatCollector) Collect(out chan<- prometheus.Metric) {
	h, current := c.m.heat.Load(), bpf.HeatNone
	if h != nil {
		current, _ = h.probes.HeatTier()
	}
	for _, tier := range bpf.HeatTiers {
		out <- prometheus.MustNewConstMetric(descHeatTier, prometheus.GaugeValue, number(tier == current), tier)
	}
	if current == bpf.HeatNone {
		return // no figure is better than a false one
	}
	list, err := h.read(func(uint64) time.Time { return time.Time{} })
	if countsReadable("heat", err, out) {
		collectHeat(out, list)
	}
}

func collectHeat(out chan<- prometheus.Metric, list []ImageHeat) {
	counts, sum := map[float64]uint64{}, 0.0
	var bytes, readBytes, readFiles, gaps uint64
	seen := map[[3]string]bool{}
	var images uint64
	for _, i := range list {
		if i.Known {
			images++
			sum += *i.ReadPercent
			for _, most := range heatBuckets {
				if *i.ReadPercent <= most {
					counts[most]++
				}
			}
		}
		for _, l := range i.Layers {
			name := [3]string{i.Namespace, i.Snapshotter, l.ChainID}
			if seen[name] {
				continue
			}
			seen[name] = true
			bytes += l.Bytes
			if l.Known {
				readBytes += *l.ReadBytes
				readFiles += *l.ReadFiles
			}
			if l.AtLeast {
				gaps++
			}
		}
	}
	out <- prometheus.MustNewConstHistogram(descHeatRead, images, sum, fill(counts))
	for d, value := range map[*prometheus.Desc]uint64{descHeatHave: bytes, descHeatWarm: readBytes, descHeatFile: readFiles, descHeatGaps: gaps} {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value))
	}
}

// fill makes every bucket exist.
func fill(counts map[float64]uint64) map[float64]uint64 {
	for _, most := range heatBuckets {
		counts[most] += 0
	}
	return counts
}
