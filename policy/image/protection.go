package image

import (
	"fmt"
	"time"
)

// protection is a rule that keeps an image regardless of the disk.
type protection struct {
	reason Reason
	why    func(c *candidate, s *Snapshot, now time.Time) string // "" if it does not apply
}

// protections are in the order of their reasons: the first that applies is given.
var protections = []protection{
	{KeptBlocked, func(c *candidate, s *Snapshot, _ time.Time) string {
		switch {
		case c.twice:
			return "listed more than once"
		case c.ID == "":
			return "has no ID"
		case !s.Graph.inside(c.Roots):
			return "has a root outside the graph"
		}
		return ""
	}},
	{KeptInUse, func(c *candidate, _ *Snapshot, _ time.Time) string { return nonEmpty("used by ", c.UsedBy) }},
	{KeptWanted, func(c *candidate, _ *Snapshot, _ time.Time) string { return nonEmpty("wanted by ", c.Wanted) }},
	{KeptPinned, func(c *candidate, _ *Snapshot, _ time.Time) string { return ifTrue(c.Pinned, "pinned by the runtime") }},
	{KeptSandbox, func(c *candidate, _ *Snapshot, _ time.Time) string {
		return ifTrue(c.Sandbox, "the runtime's sandbox image")
	}},
	{KeptByRule, func(c *candidate, _ *Snapshot, _ time.Time) string {
		if c.Keep == "" {
			return ""
		}
		return "kept by the rule " + c.Keep
	}},
	{KeptUseUnknown, func(c *candidate, _ *Snapshot, _ time.Time) string {
		if c.Unread == "" {
			return ""
		}
		return "the snapshotter " + c.Unread + ", where it is unpacked, cannot be read"
	}},
	{KeptPodsUnknown, func(c *candidate, s *Snapshot, now time.Time) string { return s.Pods.MayWant(c.arrived(), now) }},
	{KeptYoung, func(c *candidate, s *Snapshot, now time.Time) string {
		a := age(c.arrived(), now)
		if a >= s.Policy.MinimumAge {
			return ""
		}
		return fmt.Sprintf("arrived %v ago, minimum age %v", a.Round(time.Second), s.Policy.MinimumAge)
	}},
	{KeptFailed, func(c *candidate, _ *Snapshot, now time.Time) string {
		if !now.Before(c.RetryAt) {
			return ""
		}
		return fmt.Sprintf("its removal failed, next try in %v", c.RetryAt.Sub(now).Round(time.Second))
	}},
}

func ifTrue(yes bool, text string) string {
	if yes {
		return text
	}
	return ""
}

func nonEmpty(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return prefix + listed(names)
}
