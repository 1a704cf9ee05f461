package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/image"
)

const levelWarn = slog.LevelWarn

// Explanation answers "why": every image with its verdict, and the disk.
type Explanation struct {
	Time        time.Time          `json:"time"`
	Mode        string             `json:"mode"`
	Filesystem  string             `json:"filesystem"`
	Capacity    uint64             `json:"capacityBytes"`
	Available   uint64             `json:"availableBytes"`
	UsedPercent int                `json:"usedPercent"`
	HighPercent int                `json:"highPercent"`
	LowPercent  int                `json:"lowPercent"`
	Hold        *image.Hold        `json:"hold,omitempty"`
	Images      []ImageExplanation `json:"images"`
}

// ImageExplanation is one image, as the last decision saw it.
type ImageExplanation struct {
	ID         string     `json:"id"`
	References []string   `json:"references"`
	Verdict    string     `json:"verdict"` // "keep" or "remove"
	Reason     string     `json:"reason"`
	Detail     string     `json:"detail"`
	FreesBytes uint64     `json:"freesBytes"`
	LastUsed   *time.Time `json:"lastUsed,omitempty"`
	Arrived    time.Time  `json:"arrived"`
	UsedBy     []string   `json:"usedBy,omitempty"`
}

// question is somebody's request to the loop; the answer comes on reply, which
// has room for it.
type question struct {
	reply chan Explanation
}

func (a *Agent) answer(q question) {
	a.harvest()
	e := Explanation{
		Time: a.clock.now(), Mode: string(a.cfg.Mode), Filesystem: a.root,
		Capacity: a.reading.CapacityBytes, Available: a.reading.AvailableBytes, UsedPercent: a.reading.UsedPercent(),
		HighPercent: a.cfg.Images.HighThresholdPercent, LowPercent: a.cfg.Images.LowThresholdPercent,
		Hold: a.plan.Hold, Images: []ImageExplanation{},
	}
	add := func(verdict string, list []image.Decision) {
		for _, d := range list {
			e.Images = append(e.Images, a.explainImage(verdict, d))
		}
	}
	add("remove", a.plan.Remove)
	add("keep", a.plan.Keep)
	q.reply <- e
}

func (a *Agent) explainImage(verdict string, d image.Decision) ImageExplanation {
	i, r := a.known[d.ImageID], a.rec.Images[d.ImageID]
	e := ImageExplanation{
		ID: d.ImageID, References: i.References, Verdict: verdict, Reason: string(d.Reason), Detail: d.Detail,
		FreesBytes: d.FreesBytes, Arrived: r.Arrived, UsedBy: i.UsedBy,
	}
	if !r.LastUsed.IsZero() {
		used := r.LastUsed
		e.LastUsed = &used
	}
	return e
}

// sayPlan logs what observe mode would remove, once for the same plan.
func (a *Agent) sayPlan() {
	ids := make([]string, len(a.plan.Remove))
	for n, d := range a.plan.Remove {
		ids[n] = d.ImageID
	}
	slices.Sort(ids)
	if key := strings.Join(ids, " "); key != a.toldPlan {
		a.toldPlan = key
		for _, d := range a.plan.Remove {
			a.log.Info("image would be removed", "image", d.ImageID, "references", a.known[d.ImageID].References,
				"reason", string(d.Reason), "detail", d.Detail, "computed_bytes", d.FreesBytes)
		}
	}
}

// explainHold says, once per hold and renewal, what holds the space.
func (a *Agent) explainHold(h *image.Hold) {
	was := a.rec.Meta.Hold
	a.metrics.hold(h)
	switch {
	case h == nil && was != nil:
		a.log.Info("hold ended", "reason", "the disk is low enough or can be brought there")
	case h != nil && (was == nil || was.AvailableBytes != h.AvailableBytes || was.InodesAvailable != h.InodesAvailable):
		var parts []string
		for _, s := range h.Space {
			parts = append(parts, fmt.Sprintf("%s %d MiB", s.By, s.Bytes>>20))
		}
		a.log.Log(context.Background(), levelWarn, "the low line cannot be reached; holding",
			"reason", string(image.KeptHold), "used_percent", a.reading.UsedPercent(), "held_by", strings.Join(parts, ", "))
	}
}
