// Package watermark watches how full the filesystems of a node are.
//
// A [Watcher] finds the filesystems that the watched directories are on, follows them as they are
// mounted and unmounted, and gives the kernel a threshold for each. A filesystem that the kernel
// cannot watch is polled. The Watcher reacts to a crossing, a deadline or a finished look, and
// returns what a reading asks for as a [Demand]. Nothing is removed here.
//
// # Invariants
//
//   - A filesystem is one superblock, however many directories are on it. A directory with a project
//     quota counts as a filesystem of its own.
//   - A reading is of the filesystem that it was requested for, never of another one that was just
//     mounted over its path.
//   - A threshold is set after the reading that it follows from. The disk is read once more after
//     that, so that no allocation in between is missed.
//   - A crossing that removes nothing lists nothing.
//
// The Watcher's methods are called under one lock. They release it around each call of a disk
// ([Options].Outside). If Survey finds a filesystem gone in that time, the filesystem is not read again and gets no threshold. Scrapes read the
// filesystems without the lock.
//
// # Failure modes
//
// Without kernel programs, or where they fail, the disk is polled every [PollInterval]. A disk
// whose figures lag (btrfs) is asked to settle before a decision. If that takes too long, the
// current figure counts, with what removals are computed to have freed.
package watermark
