// Package fs reads how full a filesystem is, and where a directory is.
//
// The figures are those of the kubelet: capacity is f_blocks, available is f_bavail
// (what unprivileged writers can still get), both times the fragment size.
// [Info] adds the raw counters, because the threshold in the kernel is in free
// blocks: reserved = Free − Avail.
//
// A superblock is identified by the major:minor that /proc/self/mountinfo shows,
// which is the kernel's s_dev. stat(2) is no substitute: on btrfs it returns a
// number of the subvolume that no tracepoint and no superblock has.
//
// Filesystems differ in when they show the space that a removal has freed (seen on 6.18):
//   - ext4: at once.
//   - btrfs: only after the running transaction commits. An ioctl asks for a commit;
//     syncfs(2) commits, too, but first writes back everything that is dirty.
//   - xfs: inodes are inactivated by background workers (since 5.14), and
//     statfs(2) only nudges them. One ioctl waits for them.
//
// In a directory whose project has a limit, statfs reports the limit and not the
// filesystem: see [Project].
//
// [Settle] hides these differences. [WatchMounts] sleeps until mounts change, and
// [Identify] then shows whether a path is affected. The package writes nothing. Its only
// state is which filesystems have a kernel call in progress that cannot be interrupted
// (syncfs, the ioctls): each such call has a goroutine that ends with it, and each
// filesystem has at most one of each kind.
package fs
