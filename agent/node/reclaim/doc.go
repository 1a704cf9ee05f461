// Package reclaim removes images until the filesystems that hold them are at their low thresholds.
//
// A [Reclaimer] asks policy/image for a plan for each of these filesystems, knows what holds
// their space, and owns what outlives a run: how far it came, holds, the removals of the last
// hour, failures. A [Run] carries plans out: plan.go, run.go and withdraw.go, in this order.
//
// # Invariants
//
//   - Every image that goes passes Run.Execute: mode, hourly cap, last look, log, history and
//     metrics are there and nowhere else.
//   - An image loses its names first, then is looked at once more, and only then goes
//     (kubernetes issue 123631). One that turns out to be needed gets its names back, also
//     when the agent is to end.
//   - Before each group the plan is made anew: others write and delete meanwhile. It ends at the
//     low threshold, by what the disk shows or, for a while, by what was computed.
//   - A failure that may be the runtime's blames no image: others would go in its place.
//
// One lock guards a Reclaimer and its Run. They give it up around each call of the runtime and
// each wait ([Options].Outside and Sleep); one run is on at a time.
//
// # Failure modes
//
// An image whose removal fails is left alone for a while (package removal), and the others go
// on. A runtime that goes away ends the run; it goes on to the low threshold afterwards, also after a
// restart. Names that could not be put back are put back by Mend before the next look. Where
// there is no space to withdraw an image, it is removed without that. Without pods the latest
// answer counts (package pods).
package reclaim
