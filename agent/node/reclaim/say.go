package reclaim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/policy/image"
)

// explainHold reports what holds the space of a filesystem, once for each hold and resource.
func (r *Reclaimer) explainHold(f *filesystem) {
	was, h := f.kept.Hold, f.plan.Hold
	switch {
	case h == nil && was != nil:
		why := "no space is needed any more"
		if was.Bytes && f.plan.NeedBytes > 0 || was.Inodes && f.plan.NeedInodes > 0 {
			why = "images can reach the low threshold again"
		}
		r.bookHold(f, page.OutcomeEnded, why)
		r.o.Log.Info("hold ended", "reason", why, "path", f.Path)
	case h != nil && !sameHold(was, h):
		line := []any{"path", f.Path, "reason", string(image.KeptHold), "used_percent", f.UsedPercent(), "held_by", heldBytes(h)}
		if h.Inodes {
			line = append(line, "inodes_used_percent", f.InodesUsedPercent(), "inodes_held_by", heldInodes(h))
		}
		if by := r.o.WritersGrew(h.Inodes && !h.Bytes); by != "" {
			line = append(line, "written_by", by)
		}
		if !h.Final() {
			line = append(line, "partial", "the images of a snapshotter that cannot be read stay until it can")
		}
		r.o.Log.Warn("the low threshold cannot be reached; holding", line...)
		r.bookHold(f, page.OutcomeRefused, holdReason(was, h))
		r.o.Tell(holdFact(f.Path, h))
	}
}

// sameHold reports whether two holds are about the same resources, so that the log line of the first is
// still true. The metrics show how full the disk is.
func sameHold(was, is *image.Hold) bool {
	return was != nil && is != nil && was.Bytes == is.Bytes && was.Inodes == is.Inodes && was.Final() == is.Final()
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
