// Package fs reads how full a filesystem is, and where a directory is.
//
// The reading is the kubelet's: capacity is f_blocks, available is f_bavail
// (what unprivileged writers can still get), both times the fragment size.
// Beside it, [Info] carries the raw counters, because the threshold in the
// kernel is in free blocks: reserved = Free − Avail.
//
// A superblock is named by the major:minor that /proc/self/mountinfo shows,
// which is the kernel's s_dev. stat(2) is no substitute: btrfs answers with a
// number of the subvolume that no tracepoint and no superblock has.
//
// Not every filesystem tells the truth right after a removal (seen on 6.18):
//   - ext4: at once.
//   - btrfs: only after the running transaction commits; syncfs(2) does that.
//   - xfs: inodes are inactivated by background workers (since 5.14), and
//     statfs(2) only nudges them. One ioctl waits for them.
//
// Of a directory whose project has a limit, statfs speaks of the project and not of the
// filesystem: [Project].
//
// [Settle] hides these differences. [WatchMounts] sleeps until mounts change, and
// [Identify] then says whether that concerns a path. The package writes nothing.
// Its one state is which filesystems have a kernel call under way that cannot be
// interrupted (syncfs, the ioctl): each such call has a goroutine that ends with it,
// and there is one for each filesystem at most.
package fs
