// Package watermark watches how full the filesystems of a node are.
//
// A [Watcher] finds the filesystems that the watched directories are on, follows them as
// they are mounted and unmounted, and gives the kernel a threshold for each. Where the kernel
// cannot watch one, it is polled. What happens comes in as a crossing, a deadline or a finished
// look; what a reading asks for goes out as a [Demand]. Nothing is removed here.
//
// # Invariants
//
//   - A filesystem is one superblock, however many directories are on it; what the limit of a
//     project holds for is one of its own.
//   - A reading is of the filesystem that it was asked for, and of no other that was mounted
//     over its path a moment ago.
//   - A threshold is set after the reading that it follows from, and the disk is read once
//     more after that: no allocation in between is overlooked.
//   - A crossing that removes nothing lists nothing.
//
// The Watcher's methods are called under one lock. Crossed, Looked, Recheck, ReadForPlan and
// Removed give it up while they wait for a disk ([Options].Outside); a filesystem that Survey
// finds gone meanwhile is neither read after that nor given a threshold. Scrapes read the
// filesystems without the lock.
//
// # Failure modes
//
// Without kernel programs, or where they fail, the disk is polled every [PollInterval]. A disk whose
// figures lag (btrfs) is asked to settle before a decision; if that takes too long, the figure at
// hand counts, with what removals are computed to have freed.
package watermark
