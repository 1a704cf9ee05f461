// Package reclaim removes images until the filesystems that hold them are at their low thresholds.
//
// A [Reclaimer] asks policy/image for a plan for each of these filesystems, and knows what holds their
// space. It owns what outlives a run: the progress of reclaim, holds, the removals of the last hour,
// failures. A [Run] carries plans out: plan.go, run.go and withdraw.go, in this order.
//
// # Invariants
//
//   - Every removal of an image passes Run.Execute: mode, hourly cap, last look, log, history and
//     metrics are there and nowhere else.
//   - An image first loses its names. Then it is checked once more, and only then it is removed
//     (kubernetes issue 123631). If it turns out to be needed, its names are restored, also when the
//     agent stops.
//   - A new plan is made before each group, because other processes write and delete, too. The plan
//     ends at the low threshold, by the disk's figure or, for a while, by the computed one.
//   - A failure that may be the runtime's fault blames no image: otherwise other images would be
//     removed in its place.
//
// One lock guards a Reclaimer and its Run. They release it around each call of the runtime and each wait
// ([Options].Outside and Sleep). Only one run is under way at a time.
//
// # Failure modes
//
// If a removal fails, the image is left alone for a while (package removal), and the run continues with
// the others. If the runtime becomes unavailable, the run ends. Reclaim continues to the low threshold
// afterwards, also after a restart. Names that could not be restored are restored by Mend before the
// next look. If there is no space to withdraw an image, it is removed without that. If the pods are not
// known, the latest answer counts (package pods).
package reclaim
