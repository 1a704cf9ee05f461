package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/agentrun"
)

// story shows the agent's log lines as they arrive, and keeps the data for the summary.
type story struct {
	screen *screen
	cast   *cast
	ended  chan struct{} // closed when a run has ended

	once      sync.Once
	mu        sync.Mutex
	reaction  float64 // ms from the crossing to the end of the first removal
	removed   []string
	freed     int64
	available int64 // after the last removal
	result    string
}

func newStory(s *screen, c *cast) *story {
	return &story{screen: s, cast: c, ended: make(chan struct{})}
}

func (s *story) line(l agentrun.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch l.Message {
	case "the kernel watches a filesystem":
		if strings.HasPrefix(l.Text("filesystem"), "images") {
			s.screen.say("agent", "the kernel watches the threshold: no polling")
		}
	case "filesystem reached its high threshold":
		s.screen.sayIn(yellow, "HIGH", "the high threshold is crossed; the kernel woke ebb")
	case "first removal done":
		s.reaction = l.Number("since_crossing_ms")
	case "image removed":
		s.removed = append(s.removed, s.cast.nameOf(l.Text("image")))
		s.freed += int64(l.Number("freed_bytes"))
		s.available = int64(l.Number("available_bytes"))
		s.screen.sayIn(yellow, "removed", "%-9s %s (computed), %.1f MiB (measured)",
			short(s.cast.nameOf(l.Text("image"))), l.Text("detail"), l.Number("freed_bytes")/mib)
	case "reclaim run ended":
		s.result = l.Text("result")
		s.screen.sayIn(green, "done", "%s: %.0f images, %.1f MiB in %.0f ms", s.result,
			l.Number("images_removed"), l.Number("freed_bytes")/mib, l.Number("took_ms"))
		s.once.Do(func() { close(s.ended) })
	default:
		if l.Level == "WARN" || l.Level == "ERROR" {
			s.screen.sayIn(yellow, "agent", "%s: %s", l.Message, l.Text("error"))
		}
	}
}

// figures are the demo's results.
type figures struct {
	Reaction float64 `json:"crossing_to_first_removal_ms"`
	Final    float64 `json:"final_used_percent"`
	Low      float64 `json:"low_percent"`
	Removed  int     `json:"images_removed"`
	Needed   int     `json:"images_needed"`

	wrong []error
}

func (d *demo) summary() (figures, error) {
	if err := d.gauge(); err != nil {
		return figures{}, err
	}
	u, err := d.node.Usage()
	if err != nil {
		return figures{}, err
	}
	s := d.story
	s.mu.Lock()
	defer s.mu.Unlock()
	// The bytes that would be available without any removal: the reading after the last
	// removal, less all that the removals freed. This includes everything written
	// during the run.
	lowAvailable := int64(float64(u.CapacityBytes) * (100 - d.screen.low) / 100)
	goes := d.cast.goes(lowAvailable - (s.available - d.cast.frees(s.removed)))
	f := figures{
		Reaction: result.Round(s.reaction), Final: result.Round(u.UsedPercent), Low: d.screen.low,
		Removed: len(s.removed), Needed: len(goes),
	}
	f.wrong = s.check(f, goes)
	d.screen.step("Summary: %d of %d images removed (%d were needed), %.1f MiB freed, first one %.0f ms after the crossing, disk at %.1f %%",
		f.Removed, len(d.cast.images), f.Needed, float64(s.freed)/mib, f.Reaction, f.Final)
	return f, nil
}

// check compares the run with what ebb promises. goes are the images that had to be
// removed.
func (s *story) check(f figures, goes []string) (wrong []error) {
	if s.result != "low_reached" {
		wrong = append(wrong, fmt.Errorf("the run ended with %q", s.result))
	}
	if f.Final > f.Low {
		wrong = append(wrong, fmt.Errorf("the disk is at %.2f %%, above the low threshold of %.0f %%", f.Final, f.Low))
	}
	if !slices.Equal(s.removed, goes) {
		wrong = append(wrong, fmt.Errorf("removed were %v, in this order, where %v had to go", s.removed, goes))
	}
	if f.Reaction <= 0 {
		wrong = append(wrong, errors.New("no removal followed a crossing that the kernel saw"))
	}
	return wrong
}

func (f figures) verdict() error { return errors.Join(f.wrong...) }
