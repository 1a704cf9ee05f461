// Package bpf asks the kernel four questions without being woken for the
// answers: which images were used, until when; how much of their layers is ever
// read; is a filesystem about to run low; and who fills it.
//
// # Last use
//
// lastuse.bpf.c looks at every exec and at the end of every process. If the
// process has an overlayfs as its root, the topmost lower directory of that
// overlay names the image: it is the unpacked last layer. Its stamp is set to
// now. User space says which directories are layers ([Probes.Track]) and reads
// the stamps when it wants to know ([Probes.LastUses]); nothing is sent.
//
// The end of a container's use is the exit of its last process. The removal
// of its cgroup would do as well, but needs a table of live containers, which
// can fill, and a cgroup v2 hierarchy, which not every node has.
//
// What a process reads does not matter, only where its root is: neither a find
// on the host nor a container that reads every layer through a bind mount
// makes an image newer.
//
// # Layer heat
//
// heat.bpf.c counts which files of a layer its containers have touched
// ([Probes.Heat]): statistics, on which no decision rests. A touch counts if the
// process has an overlayfs as its root and the file lies on a lower layer of that
// very overlay. Programs find the layer themselves and enter its root directory,
// by device, inode number and generation, so that a container's first reads count
// although nobody has heard of the image yet, and a directory that was made anew
// is not taken for the old one. Each file counts once: one word of a fixed table,
// with its layer's slot and 47 bits of a hash of device, inode number and
// generation. Two files can be taken for one with a probability of about 1 in
// 10^13 for each further file; what finds no room is counted as lost.
//
// Tiers, the best that can be attached ([Probes.HeatTier]):
//   - fentry on security_file_open, or a kprobe: every file that is opened. A file
//     of an overlay's lower layer is recognized by the private mount it is opened
//     through (Linux 6.5), or by the overlay's path that it bears.
//   - the page cache's tracepoints mm_filemap_map_pages and mm_filemap_fault
//     (Linux 6.12): files that are executed or mapped. Not those that are only
//     read, unless mm_filemap_get_pages is attached too (HeatReads), which costs
//     every read(2) of the node. These tell a file, not the way to it: a container
//     that is given its own image's layers by a bind mount makes them warm.
//
// On the erofs snapshotter a layer is a filesystem, known by its UUID instead of
// the device. The table takes 131072 files of 4096 layers. Nothing is ever
// evicted. A layer below the 255th is not looked at; runtimes stop at 127.
//
// # Usage
//
// usage_ext4, usage_xfs and usage_btrfs.bpf.c compare, at each allocation, the
// filesystem's own counters with a line ([Probes.SetLine]) and send one
// [Crossing] when free space has come down to it. The line is then disarmed
// until free space was above a second, higher line, or user space sets it again;
// a third, lower figure can ask for one more event meanwhile. Whoever receives
// an event reads the exact figure and calls SetLine again.
//
// On kernels whose ext4 has large folios, a filesystem that is far from its line
// is watched where folios become dirty, once for up to 8 MiB, not where each block
// is promised: that alone takes 8 % of buffered writes at page-cache speed. Before
// blocks that nobody saw promised could reach the line, an event asks for the
// closer watch, which lasts until headroom has doubled (headers/near.h has the
// bound). [Line].Free says how far it is; who leaves it 0 has the close watch.
//
// An event is never late. It can be early:
//   - ext4: for the moment in which promised blocks become allocated ones, they
//     count twice, for statfs(2) too.
//   - xfs: by what transactions hold at the moment, and by what files that are
//     being written were given in advance; for statfs(2) too.
//   - btrfs: statfs(2) shows growth up to half a minute late, so the programs
//     count what was promised as well. That can be more than will be taken
//     (compression, tiny files, writes over blocks that need no copy), and what
//     is freed counts from the next commit on. So overwriting can raise one
//     event for each headroom's worth.
//
// On btrfs, therefore, the caller makes statfs true (fs.Settle) before it decides
// anything, and after setting a line compares it with [Probes.Counted], which
// knows what was written since. A caller that gets early events in quick
// succession leaves time between them. What a commit itself adds to the metadata
// counts when the block group for it is made.
//
// A line belongs to a superblock and stays when that is unmounted: the next one
// can have the same number. Whoever follows mounts clears it.
//
// # Writers
//
// The objects called writers count what each container takes and gives back on
// watched filesystems ([Probes.CountWriters], [Probes.Writers]). Most of it
// happens while the task that causes it runs, at the latest in its exit, when
// files close that were deleted before. What write-back does with promises
// later is skipped. So the figures are those of statfs but for the blocks of
// extent trees. Who deletes shrinks, whoever wrote.
//
//   - ext4: promises for delayed allocation, other allocations, promises taken
//     back, blocks freed.
//
//   - xfs: what each transaction sums up, and delayed extents as they come and
//     go. Workers free the blocks of deleted files, and take back what was
//     preallocated behind the end of a file or for copies on write. So the task
//     that leaves an inode to them is noted (headers/owners.h), in a table that
//     can overflow: then it counts for the root cgroup (Counters.WritersUnowned).
//     The filesystem is right to the block, and a container to the extent trees,
//     reflinks included: what is shared takes nothing, and comes back by whoever
//     drops it last. On a full filesystem a writer can take back what others have preallocated; that
//     shrinks the writer. A realtime device is not counted.
//
//   - btrfs: data, from the promise to a writer until its extent is freed, as
//     the data that btrfs(5) calls used after a sync; compressed, shared and partly
//     overwritten extents with what they take. Before a sync it is ahead of that.
//     The last to drop a reference to an extent shrinks, at the commit that frees
//     it. A worker that drops what was overwritten does so for who wrote. Not
//     counted is metadata: it is shared, and most of it written by the commit.
//     Measured: 820 KB for 300 directories and 300 tiny files, two copies of it.
//     A container whose files are smaller than about 25 KB is off by more than 5 %.
//
// On ext4 and xfs inodes are those that statfs shows as used; on btrfs, which
// has no table of them, files made and files gone.
//
// The task's cgroup in the v2 hierarchy tells the container. Cgroups inside one
// that bears a generated container id count for it, and cost no entry. A cgroup
// that ends leaves its counts and its path, until user space has read and
// forgotten them. Changes are added up per CPU and booked when another cgroup
// or filesystem has its turn.
//
// Not attributed: the last close by a worker, where a file was handed to the
// kernel (asynchronous I/O, loop devices); that counts for the root cgroup. What
// a runtime deletes with a container counts for the runtime.
//
// Other filesystems are not counted ([Probes.CanCountWriters]).
//
// # Who owns what
//
// The kernel owns the records; pins below [Options.PinDir] keep them, and the
// recording, alive while no agent runs. One process at a time holds a lock on
// that directory and owns the slots. Each of the objects has a directory
// of its own, named after a hash of its code and sizes; it is filled under
// another name and renamed, so it is there as a whole or not at all. [Load]
// adopts a directory of the same hash. Otherwise it attaches the new programs
// first, waits for runs of the old ones that began before, carries the old stamps
// over, then removes the old pins: at every moment at least one of the two
// records. Counts of writers are carried over too, less what happens while they
// are copied. The objects that count writers share the maps of one, so they are
// replaced together.
//
// A slot of the stamps array is given to another layer only after every program
// that may have looked it up for the old one has ended. Slots of heat are taken
// by programs, from a stock that only [Load] and [Probes.ForgetHeat] fill, by the
// same rule. A later set of heat programs goes on with the maps of the one before.
//
// # Failure
//
// The objects fail apart, one for each type of filesystem among them;
// [Probes.Status] says which and why, [Probes.CanWatch] where lines can be set,
// and [ReadReport] also what they take and cost. Where a filesystem is a module
// that is not loaded yet, its object waits for [Probes.CatchUp], but for
// overlayfs: Load has the kernel fetch it, for a container could begin and end
// before anybody has caught up. Load itself fails only if neither last use nor
// any usage works, nor can come: [ErrNotPermitted] names the missing capability,
// [ErrUnsupported] what the kernel lacks. Every loss has a counter in
// [Counters]. A crash at any point is mended by the next Load; if old stamps
// could not be read, [Probes.Lost] says so, and the caller has to take every
// image for recently used.
//
// Needed: Linux 5.12 with BTF for last use, 5.17 for layer heat, 5.19 for exact
// lines (before that events come early by what the CPUs keep back of a counter).
// A process whose root is not an overlayfs is not seen.
//
// Sources: do_exit (kernel/exit.c), __folio_mark_dirty (mm/page-writeback.c), ovl_get_layers (fs/overlayfs/super.c),
// ext4_statfs (fs/ext4/super.c), ext4_mb_new_blocks (fs/ext4/mballoc.c),
// ext4_da_reserve_space and ext4_da_update_reserve_space (fs/ext4/inode.c),
// ext4_es_remove_extent (fs/ext4/extents_status.c), cgroup_rmdir
// (kernel/cgroup/cgroup.c), percpu_counter_add_batch (lib/percpu_counter.c);
// xfs_fs_statfs (fs/xfs/xfs_super.c), xfs_trans_reserve and xlog_cil_commit,
// xfs_buffered_write_iomap_begin (fs/xfs/xfs_iomap.c); btrfs_statfs and
// btrfs_calc_avail_data_space (fs/btrfs/super.c), btrfs_reserve_data_bytes
// (fs/btrfs/space-info.c), btrfs_add_reserved_bytes (fs/btrfs/block-group.c);
// ovl_open and ovl_open_realfile (fs/overlayfs/file.c), backing_file_open
// (fs/backing-file.c), filemap_map_pages (mm/filemap.c). The
// tests pass on 6.18 with the filesystems built in, and last use and ext4 on
// Debian's 6.1 with both as modules.
package bpf
