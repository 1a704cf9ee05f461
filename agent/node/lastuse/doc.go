// Package lastuse knows when each image of a node was last used.
//
// A [Tracker] combines three sources. The kernel stamps processes that begin or end on the top layer of
// an image. The runtime sends events about containers. Its lists show which images are in use.
// The kernel has to know the layers, so [Layers] has their directories found: a resolver asks the
// runtime for them beside the loop.
//
// # Invariants
//
//   - Unknown is never unused: if uses may have been lost, the images concerned count as used until
//     now.
//   - The record of an image that is gone is deleted, so the image counts as new if it comes back. An
//     image that lacks only its names, because ebb withdrew it, keeps its record.
//   - Uses while no agent ran count in the first decision: layers whose place is on record are tracked
//     before each harvest.
//   - Only the Tracker writes the records. One goroutine at a time uses it and its [Layers].
//     [Layers.Run] runs beside them and sees copies, as scrapes do.
//
// # Failure modes
//
// Without kernel programs, and for root filesystems that are not overlayfs, uses come from the
// runtime's events and lists. A layer that cannot be found is asked for again, with back-off; until
// then its uses wait in the kernel.
package lastuse
