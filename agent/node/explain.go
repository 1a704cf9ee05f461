package node

import (
	"cmp"
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

	Filesystems []FilesystemExplanation `json:"filesystems"` // all that are watched
}

// FilesystemExplanation is one watched filesystem, as it was last read.
type FilesystemExplanation struct {
	Names             []string `json:"names"` // what stands on it
	Path              string   `json:"path"`
	Type              string   `json:"type"`
	Device            string   `json:"device"`
	UsedPercent       int      `json:"usedPercent"`
	HighPercent       int      `json:"highPercent"`
	InodesUsedPercent int      `json:"inodesUsedPercent"`
	InodesHighPercent int      `json:"inodesHighPercent"`
	Kernel            bool     `json:"kernel"`            // the kernel watches its line
	Project           *uint32  `json:"project,omitempty"` // whose limit the figures are of, in place of the filesystem
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
	Again      int        `json:"pulledAgain,omitempty"` // times it came back within a day of its removal by ebb
}

// question is somebody's request to the loop; the answer comes on reply, which
// has room for it.
type question struct {
	reply      chan Explanation
	containers chan ContainersExplanation // instead, if not nil
}

func (a *Agent) answer(q question) {
	if q.containers != nil {
		q.containers <- a.explainContainers()
		return
	}
	a.harvest()
	e := Explanation{
		Time: a.clock.now(), Mode: string(a.cfg.Mode),
		HighPercent: a.cfg.Images.HighThresholdPercent, LowPercent: a.cfg.Images.LowThresholdPercent,
		Images: []ImageExplanation{}, Filesystems: a.explainFilesystems(),
	}
	t := a.target
	if t == nil { // the images have not been found yet
		q.reply <- e
		return
	}
	e.Filesystem, e.Capacity, e.Available, e.UsedPercent = t.path, t.CapacityBytes, t.AvailableBytes, t.UsedPercent()
	e.Hold = t.plan.Hold
	add := func(verdict string, list []image.Decision) {
		for _, d := range list {
			e.Images = append(e.Images, a.explainImage(verdict, d))
		}
	}
	add("remove", t.plan.Remove)
	add("keep", t.plan.Keep)
	q.reply <- e
}

func (a *Agent) explainFilesystems() []FilesystemExplanation {
	list := []FilesystemExplanation{}
	for _, f := range a.filesystems {
		var project *uint32
		if f.Project.Limited {
			id := f.Project.ID
			project = &id
		}
		list = append(list, FilesystemExplanation{
			Project: project,
			Names:   f.names, Path: f.path, Type: f.Type, Device: f.device(), Kernel: f.line.kernel,
			UsedPercent: f.UsedPercent(), HighPercent: f.lines.HighPercent,
			InodesUsedPercent: f.InodesUsedPercent(), InodesHighPercent: f.lines.InodesHighPercent,
		})
	}
	return list
}

func (a *Agent) explainImage(verdict string, d image.Decision) ImageExplanation {
	i, r := a.known[d.ImageID], a.rec.Images[d.ImageID]
	e := ImageExplanation{
		ID: d.ImageID, References: i.References, Verdict: verdict, Reason: string(d.Reason), Detail: d.Detail,
		FreesBytes: d.FreesBytes, Arrived: r.Arrived, UsedBy: i.UsedBy, Again: r.Again,
	}
	if !r.LastUsed.IsZero() {
		used := r.LastUsed
		e.LastUsed = &used
	}
	return e
}

// sayPlan logs what observe mode would remove, once for the same plan.
func (a *Agent) sayPlan() {
	plan := a.target.plan
	ids := make([]string, len(plan.Remove))
	for n, d := range plan.Remove {
		ids[n] = d.ImageID
	}
	slices.Sort(ids)
	if key := strings.Join(ids, " "); key != a.toldPlan {
		a.toldPlan = key
		for _, d := range plan.Remove {
			a.log.Info("image would be removed", "image", d.ImageID, "references", a.known[d.ImageID].References,
				"reason", string(d.Reason), "detail", d.Detail, "computed_bytes", d.FreesBytes)
		}
	}
}

// explainHold says, once per hold and resource, what holds the space of a filesystem.
func (a *Agent) explainHold(s *store) {
	was, h := s.kept.Hold, s.plan.Hold
	switch {
	case h == nil && was != nil:
		a.log.Info("hold ended", "reason", "the disk is low enough or can be brought there", "path", s.path)
	case h != nil && (was == nil || was.AvailableBytes != h.AvailableBytes || was.InodesAvailable != h.InodesAvailable):
		a.tidySoon(0) // pods that have ended give way now
		if sameHold(was, h) {
			return
		}
		line := []any{"path", s.path, "reason", string(image.KeptHold), "used_percent", s.UsedPercent(), "held_by", heldBytes(h)}
		if h.Inodes {
			line = append(line, "inodes_used_percent", s.InodesUsedPercent(), "inodes_held_by", heldInodes(h))
		}
		if by := a.grewMost(h); by != "" {
			line = append(line, "written_by", by)
		}
		a.log.Log(context.Background(), levelWarn, "the low line cannot be reached; holding", line...)
	}
}

func heldBytes(h *image.Hold) string {
	var parts []string
	for _, s := range h.Space {
		parts = append(parts, fmt.Sprintf("%s %d MiB", s.By, s.Bytes>>20))
	}
	return strings.Join(parts, ", ")
}

func heldInodes(h *image.Hold) string {
	space := slices.Clone(h.Space)
	slices.SortStableFunc(space, func(a, b image.Space) int { return cmp.Compare(b.Inodes, a.Inodes) })
	var parts []string
	for _, s := range space {
		parts = append(parts, fmt.Sprintf("%s %d", s.By, s.Inodes))
	}
	return strings.Join(parts, ", ")
}

// holdersNamed is how many writers the words about a hold name.
const holdersNamed = 3

// grewMost names those who took most of what is short since they are counted, on all
// watched filesystems; "" if writers are not counted.
func (a *Agent) grewMost(h *image.Hold) string {
	w := a.metrics.writers.Load()
	if w == nil || a.probes == nil {
		return ""
	}
	list, err := w.read()
	if err != nil {
		return "" // /writers says why
	}
	made := func(w Writer) int64 { return int64(w.InodesMade - w.InodesRemoved) }
	if h.Inodes && !h.Bytes {
		slices.SortStableFunc(list, func(a, b Writer) int { return cmp.Compare(made(b), made(a)) })
	}
	var parts []string
	for _, one := range list[:min(len(list), holdersNamed)] {
		name := cmp.Or(one.Container, one.Cgroup, "unknown")
		if one.Pod != "" {
			name = one.Namespace + "/" + one.Pod + "/" + one.Container
		}
		parts = append(parts, fmt.Sprintf("%s %d MiB, %d inodes", name, one.NetBytes>>20, made(one)))
	}
	return strings.Join(parts, "; ")
}
