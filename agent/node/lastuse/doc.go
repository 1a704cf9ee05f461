// Package lastuse knows when each image of a node was last used.
//
// A [Tracker] puts together what the kernel stamps when a process begins or ends on the top
// layer of an image, what the runtime's events tell of containers, and what its lists show to
// be in use. So that the kernel knows the layers, [Layers] has their directories found: a
// resolver asks the runtime for them beside the loop.
//
// # Invariants
//
//   - Unknown is never unused: where uses may have been lost, the images concerned count as
//     used until now.
//   - An image that is gone is forgotten, so that it counts as new should it come again. One
//     that is merely without its names, through our own doing, is not.
//   - What was used while no agent ran counts in the first decision: layers whose place is on
//     record are tracked before each harvest.
//   - The records are written by the Tracker alone. It is used, with its [Layers], by one
//     goroutine at a time; [Layers.Run] runs beside them and sees copies, as scrapes do.
//
// # Failure modes
//
// Without kernel programs, and for root filesystems that are not overlayfs, uses come from
// the runtime's events and lists. A layer that cannot be found is asked for again, less and
// less often; until then its uses wait in the kernel.
package lastuse
