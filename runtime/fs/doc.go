// Package fs reads how full a filesystem is, and where a directory stands.
//
// The reading is the kubelet's: capacity is f_blocks, available is f_bavail
// (what unprivileged writers can still get), both times the fragment size.
// Beside it, [Info] carries the raw counters, because the kernel-side line is
// drawn in free blocks: reserved = Free − Avail.
//
// A superblock is named by the major:minor that /proc/self/mountinfo shows,
// which is the kernel's s_dev. stat(2) is no substitute: btrfs answers with a
// number of the subvolume that no tracepoint and no superblock bears.
//
// Not every filesystem tells the truth right after a removal (seen on 6.18):
//   - ext4: at once.
//   - btrfs: only after the running transaction commits; syncfs(2) does that.
//   - xfs: inodes are inactivated by background workers (since 5.14), and
//     statfs(2) only nudges them.
//
// [Settle] hides these differences. [WatchMounts] sleeps until mounts change, and
// [Identify] then says whether that concerns a path. The package keeps no state
// and writes nothing; the one goroutine it starts (for syncfs, which cannot be
// interrupted) ends when the kernel call does.
package fs
