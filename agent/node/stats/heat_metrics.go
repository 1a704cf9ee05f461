package stats

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/metric"
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

// tierSees describes what each tier counts as reading.
var tierSees = map[string]string{
	bpf.HeatByFentry: "files that are opened",
	bpf.HeatByKprobe: "files that are opened",
	bpf.HeatByPages:  "files that are executed or mapped; not those that are only read",
	bpf.HeatByReads:  "files that are executed, mapped or read",
	bpf.HeatNone:     "nothing",
}

// Explain serves the admin socket's /heat.
func (h *Heat) Explain() HeatExplanation {
	e := HeatExplanation{Time: h.sources.Wall(), Unknown: h.off, Tier: bpf.HeatNone, Images: []ImageHeat{}}
	if h.off == "" {
		list, err := h.read(h.sources.WallAt)
		if err != nil {
			e.Unknown = err.Error()
		}
		e.Tier, _ = h.probes.HeatTier()
		e.Images = append(e.Images, list...)
	}
	e.Sees = tierSees[e.Tier]
	return e
}

// ReadPercent returns the percentage of each image's bytes that was ever read, by image ID. Images
// of which it is unknown are missing. For an image that is unpacked several times, it is the
// largest.
func (h *Heat) ReadPercent() map[string]float64 {
	read := make(map[string]float64)
	if h.off != "" {
		return read
	}
	list, _ := h.read(h.sources.WallAt) // if the counts cannot be read, no percentage is known
	for _, i := range list {
		if i.ReadPercent != nil {
			read[i.ID] = max(read[i.ID], *i.ReadPercent)
		}
	}
	return read
}

var (
	descHeatTier = metric.Desc("layer_heat_info", "1, with the tier as label: how reads of image layers are seen. fentry and kprobe see files that are opened. pages sees files that are executed or mapped. reads also sees files that are read.", "tier")
	descHeatHave = metric.Desc("layer_bytes", "Bytes that the layers of all images take, as the runtime measured them. Shared layers count once.")
	descHeatWarm = metric.Desc("layer_read_bytes", "Size in bytes of the files in image layers that containers ever read.")
	descHeatGaps = metric.Desc("layers_partially_observed", "Layers whose reads are not fully known. Their directory was not found yet, no container was seen that uses them, or they have more files than the kernel can remember.")
)

// heatCollector reads the kernel's counts when it is scraped. No label value is a name from the
// node.
type heatCollector struct{ *Heat }

func (c heatCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descHeatTier, descHeatHave, descHeatWarm, descHeatGaps} {
		out <- d
	}
}

func (c heatCollector) Collect(out chan<- prometheus.Metric) {
	current := bpf.HeatNone
	if c.off == "" {
		current, _ = c.probes.HeatTier()
	}
	metric.Gauge(out, descHeatTier, 1, current)
	if current == bpf.HeatNone {
		return // no figure is better than a false one
	}
	list, err := c.read(func(uint64) time.Time { return time.Time{} })
	if metric.Readable(out, "heat", err) {
		collectHeat(out, list)
	}
}

func collectHeat(out chan<- prometheus.Metric, list []ImageHeat) {
	var bytes, readBytes, gaps uint64
	seen := map[[3]string]bool{}
	for _, i := range list {
		for _, l := range i.Layers {
			name := [3]string{i.Namespace, i.Snapshotter, l.ChainID}
			if seen[name] {
				continue
			}
			seen[name] = true
			bytes += l.Bytes
			if l.Known {
				readBytes += *l.ReadBytes
			}
			if l.AtLeast {
				gaps++
			}
		}
	}
	metric.Gauge(out, descHeatHave, float64(bytes))
	metric.Gauge(out, descHeatWarm, float64(readBytes))
	metric.Gauge(out, descHeatGaps, float64(gaps))
}
