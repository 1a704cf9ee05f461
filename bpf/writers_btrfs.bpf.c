//go:build ignore
/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Counts the data that each cgroup takes and gives back on btrfs. A byte of
 * data is promised to the task that writes (bytes_may_use). It becomes reserved
 * when write-back finds room for it, then used. It is given back when the last
 * reference to its extent is gone. It counts from the promise to the end:
 *
 *	+ promised				update_bytes_may_use
 *	- a promise that is not used: data
 *	  that fits into the metadata, or is
 *	  written where room was taken before	update_bytes_may_use
 *	- the rest of it, if data was compressed
 *						btrfs_ordered_extent_add
 *	- reserved, but never written		btrfs_ordered_extent_remove
 *	- freed					btrfs_set_extent_bit
 *
 * A reservation takes the place of a promise, and changes nothing
 * (btrfs_add_reserved_bytes, under find_free_extent).
 *
 * An extent keeps the size with which it was written as long as a part of it is
 * referred to: by files that share it, or by a file that was overwritten in
 * part. The task that drops a reference (add_delayed_ref_head) does not know
 * whether it is the last. That is known when the reference is taken off, at a
 * commit, by any task. So the cgroup that dropped one last is noted. If the
 * extent is then freed, that is, pinned until the commit is over
 * (btrfs_update_block_group), it is booked for that cgroup.
 *
 * Workers do the write-back, and then drop what was overwritten. Their changes
 * are booked for the inode's owner: the cgroup that wrote to it last.
 *
 * Metadata is not counted. Its trees are shared, and copied on write by the
 * first task that changes them. Part of what a task changes is put into the
 * trees by the commit.
 */
#include "headers/drops.h"

char LICENSE[] SEC("license") = "GPL";

#define BLOCK_GROUP_DATA (1ULL << 0) /* include/uapi/linux/btrfs_tree.h */
#define DROP_DELAYED_REF 2	     /* fs/btrfs/delayed-ref.h */
#define PINNED_EXTENTS 0	     /* fs/btrfs/extent-io-tree.h: IO_TREE_FS_PINNED_EXTENTS */
#define EXTENT_DIRTY 1
#define ROOT_CGROUP 1 /* all of the kernel's threads are in it */

/* Bits of btrfs_ordered_extent.flags, fs/btrfs/ordered-data.h. */
#define ORDERED_NOCOW (1 << 1)
#define ORDERED_PREALLOC (1 << 2)
#define ORDERED_COMPRESSED (1 << 3)
#define ORDERED_IOERR (1 << 7)
#define ORDERED_TRUNCATED (1 << 8)

/*
 * Older kernels (seen on 6.1) pass the parts of a struct to these tracepoints
 * as separate arguments. Set by the loader.
 */
volatile const bool reference_in_parts = false;
volatile const bool search_in_parts = false;

struct super_block___named {
	struct {
		__u8 b[16];
	} s_uuid;
} CORE;

struct btrfs_fs_info___super {
	struct super_block___blocks *sb;
	struct btrfs_space_info *data_sinfo;
} CORE;

struct btrfs_key {
	u64 objectid;
} CORE;

struct btrfs_root {
	struct btrfs_key root_key;
	struct btrfs_fs_info___super *fs_info;
} CORE;

struct inode___linked {
	struct super_block___blocks *i_sb;
	u64 i_ino;
	unsigned int i_nlink;
} CORE;

struct btrfs_inode {
	struct btrfs_root *root;
	struct inode___linked vfs_inode;
} CORE;

enum btrfs_reserve_flush_enum {
	BTRFS_RESERVE_FLUSH_DATA = 3,
};

struct find_free_extent_ctl {
	u64 flags;
} CORE;

struct btrfs_ordered_extent {
	u64 num_bytes;
	u64 disk_num_bytes;
	u64 truncated_len;
	unsigned long flags;
} CORE;

struct btrfs_data_ref {
	u64 objectid;
} CORE;

struct btrfs_delayed_ref_node {
	u64 bytenr;
	u64 ref_root;
	unsigned int action : 8;
	struct btrfs_data_ref data_ref;
} CORE;

struct btrfs_delayed_data_ref {
	u64 root;
	u64 objectid;
} CORE;

struct btrfs_delayed_ref_head {
	u64 bytenr;
	unsigned int is_data : 1;
} CORE;

struct extent_io_tree {
	struct btrfs_fs_info___super *fs_info;
	u8 owner;
} CORE;

/* Figures are bytes. */
static __always_inline u32 unit_bits(struct super_block___blocks *sb)
{
	return 0;
}

/* State of a thread. If it is evicted, the thread books for itself. */
struct thread {
	struct inode_key inode; /* a worker has just given up a promise to it */
	u64 reserving;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 512);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

static __always_inline struct thread *this_thread(void)
{
	u32 id = bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&threads, &id);
}

static __always_inline int set_thread(struct thread *t)
{
	u32 id = bpf_get_current_pid_tgid();

	bpf_map_update_elem(&threads, &id, t, BPF_ANY);
	return 0;
}

static __always_inline struct inode_key key_of(struct super_block___blocks *sb, u64 root, u64 ino)
{
	struct inode_key k = {.fs = sb->s_dev ^ root * GOLDEN, .ino = ino};

	return k;
}

/* book_for_owner books what a worker did to an inode. */
static __always_inline int book_for_owner(struct super_block___blocks *sb, struct inode_key *k, s64 bytes, const u32 me)
{
	u64 *to = bpf_map_lookup_elem(&owners, k);

	return to ? book_for(*to, bytes, 0) : book_here(sb, bytes, 0, me);
}

/*
 * extent_of does not use s_dev, which the next filesystem can get when this one
 * is unmounted: a note can stay longer than the mount.
 */
static __always_inline u64 extent_of(struct super_block___blocks *sb, u64 bytenr)
{
	struct super_block___named *named = (void *)sb;
	u64 uuid = 0;

	bpf_core_read(&uuid, sizeof(uuid), &named->s_uuid);
	return (bytenr ^ uuid) & ~DONE_WITH;
}

/*
 * A promise is made or given up. A worker gives up what write-back did not
 * need, or what an error left. It does so for the inode of the tracepoint just
 * before (btrfs_clear_delalloc_extent; see writers_outstanding).
 */
SEC("tp_btf/update_bytes_may_use")
int BPF_PROG(writers_promised, struct btrfs_fs_info___super *fs, struct btrfs_space_info *space, u64 old,
	     s64 change)
{
	struct thread *t;

	if (!fs || !change || space != fs->data_sinfo)
		return 0;
	if (change < 0) {
		t = this_thread();
		if (t && t->reserving) {
			t->reserving = 0;
			return 0;
		}
		if (t && t->inode.ino)
			return book_for_owner(fs->sb, &t->inode, change, BTRFS_PROMISED);
	}
	return book_here(fs->sb, change, 0, BTRFS_PROMISED);
}

SEC("tp_btf/btrfs_find_free_extent")
int writers_reserving(unsigned long long *ctx)
{
	struct find_free_extent_ctl *search = (void *)ctx[1];
	struct thread t = {.reserving = 1};
	u64 flags;

	if (search_in_parts)
		flags = *(volatile u64 *)&ctx[3];
	else if (search)
		flags = BPF_CORE_READ(search, flags);
	else
		return 0;
	return flags & BLOCK_GROUP_DATA ? set_thread(&t) : 0;
}

/*
 * A task that finds no room for a promise waits until a worker has made some
 * (handle_reserve_ticket). The worker makes the promise for the waiting task,
 * and it is booked for the worker, so here it is moved to the task. On a full
 * filesystem another task can have made the promise instead; the two cases look
 * the same.
 */
SEC("tp_btf/btrfs_reserve_ticket")
int BPF_PROG(writers_waited, struct btrfs_fs_info___super *fs, u64 flags, u64 bytes, u64 since, int flush,
	     int error)
{
	if (!fs || error || !(flags & BLOCK_GROUP_DATA) ||
	    flush != bpf_core_enum_value(enum btrfs_reserve_flush_enum, BTRFS_RESERVE_FLUSH_DATA))
		return 0;
	if (!account_of(fs->sb, BTRFS_WAITED))
		return 0;
	book_for(ROOT_CGROUP, -(s64)bytes, 0);
	return book_here(fs->sb, bytes, 0, BTRFS_WAITED);
}

/* Fires before any other change of what is promised to an inode. */
SEC("tp_btf/btrfs_inode_mod_outstanding_extents")
int BPF_PROG(writers_outstanding, struct btrfs_root *root, u64 ino, int change)
{
	struct btrfs_fs_info___super *fs;
	struct thread t = {};

	if (!root)
		return 0;
	fs = root->fs_info;
	t.inode = key_of(fs->sb, root->root_key.objectid, ino);
	if (in_worker())
		return change < 0 ? set_thread(&t) : 0;
	return change > 0 ? own(fs->sb, &t.inode, BTRFS_OUTSTANDING) : 0;
}

SEC("tp_btf/btrfs_ordered_extent_add")
int BPF_PROG(writers_ordered, struct btrfs_inode *inode, struct btrfs_ordered_extent *ordered)
{
	struct btrfs_root *root;
	struct inode_key k;

	if (!inode || !ordered || !(ordered->flags & ORDERED_COMPRESSED))
		return 0;
	root = inode->root;
	k = key_of(root->fs_info->sb, root->root_key.objectid, inode->vfs_inode.i_ino);
	return book_for_owner(root->fs_info->sb, &k, ordered->disk_num_bytes - ordered->num_bytes,
			      BTRFS_ORDERED);
}

/* btrfs_finish_one_ordered has freed the room of an extent of which nothing was written. */
SEC("tp_btf/btrfs_ordered_extent_remove")
int BPF_PROG(writers_unwritten, struct btrfs_inode *inode, struct btrfs_ordered_extent *ordered)
{
	struct btrfs_root *root;
	struct inode_key k;

	if (!inode || !ordered || ordered->flags & (ORDERED_NOCOW | ORDERED_PREALLOC))
		return 0;
	if (!(ordered->flags & ORDERED_IOERR) &&
	    (!(ordered->flags & ORDERED_TRUNCATED) || ordered->truncated_len))
		return 0;
	root = inode->root;
	k = key_of(root->fs_info->sb, root->root_key.objectid, inode->vfs_inode.i_ino);
	return book_for_owner(root->fs_info->sb, &k, -(s64)ordered->disk_num_bytes, BTRFS_UNWRITTEN);
}

/* A reference is about to be dropped, under the lock that taking it off needs. */
SEC("tp_btf/add_delayed_ref_head")
int BPF_PROG(writers_dropping, struct btrfs_fs_info___super *fs, struct btrfs_delayed_ref_head *head, int action)
{
	struct account *a;

	if (!fs || !head || action != DROP_DELAYED_REF || !BPF_CORE_READ_BITFIELD_PROBED(head, is_data))
		return 0;
	a = account_of(fs->sb, BTRFS_DROPPING);
	return a && a->to ? put_drop(extent_of(fs->sb, BPF_CORE_READ(head, bytenr)), a->to) : 0;
}

/* dropped notes the owner for whom a worker has dropped a reference. */
static __always_inline int dropped(struct btrfs_fs_info___super *fs, u64 bytenr, u64 root, u64 ino)
{
	struct super_block___blocks *sb = fs->sb;
	struct inode_key k = key_of(sb, root, ino);
	u64 *to = bpf_map_lookup_elem(&owners, &k);
	struct writers_counters *n;

	if (to)
		return put_drop(extent_of(sb, bytenr), *to);
	n = counts();
	if (n && account_of(sb, BTRFS_DROPPED))
		add_one(&n->unowned);
	return 0;
}

/*
 * Only this tracepoint passes the inode. It fires without the lock, so a commit
 * can have come first.
 */
SEC("tp_btf/add_delayed_data_ref")
int writers_dropped(unsigned long long *ctx)
{
	struct btrfs_delayed_ref_node *node = (void *)ctx[1];
	struct btrfs_fs_info___super *fs = (void *)ctx[0];
	struct btrfs_delayed_data_ref *ref;
	u64 action;

	if (!fs || !node || !in_worker())
		return 0;
	if (reference_in_parts) {
		ref = (void *)(*(volatile u64 *)&ctx[2]);
		if (!ref)
			return 0;
		action = (u32)(*(volatile u64 *)&ctx[3]);
		if (action != DROP_DELAYED_REF)
			return 0;
		return dropped(fs, BPF_CORE_READ(node, bytenr), BPF_CORE_READ(ref, root),
			       BPF_CORE_READ(ref, objectid));
	}
	if (BPF_CORE_READ_BITFIELD_PROBED(node, action) != DROP_DELAYED_REF)
		return 0;
	return dropped(fs, BPF_CORE_READ(node, bytenr), BPF_CORE_READ(node, ref_root),
		       BPF_CORE_READ(node, data_ref.objectid));
}

/* Blocks of trees pass here as well, but no drop was noted for them. */
SEC("tp_btf/btrfs_set_extent_bit")
int BPF_PROG(writers_freed, struct extent_io_tree *tree, u64 start, u64 length, u32 bits)
{
	struct drop *d;

	if (!(bits & EXTENT_DIRTY) || !tree || tree->owner != PINNED_EXTENTS)
		return 0;
	d = find_drop(extent_of(tree->fs_info->sb, start));
	if (!d)
		return 0;
	book_for(d->to, -(s64)length, 0);
	d->extent = 0;
	return 0;
}

/*
 * All work on an extent's references is done. The tracepoint fires after its
 * end, without the lock (see drops.h).
 */
SEC("tp_btf/run_delayed_ref_head")
int BPF_PROG(writers_done, struct btrfs_fs_info___super *fs, struct btrfs_delayed_ref_head *head)
{
	if (!fs || !head)
		return 0;
	done_with(extent_of(fs->sb, BPF_CORE_READ(head, bytenr)));
	return 0;
}

SEC("tp_btf/btrfs_inode_new")
int BPF_PROG(writers_new, struct inode___linked *inode)
{
	return inode ? book_here(inode->i_sb, 0, 1, BTRFS_NEW) : 0;
}

/*
 * A file that is removed during its write-back is evicted after that, by a
 * worker (btrfs_add_delayed_iput).
 */
SEC("tp_btf/btrfs_inode_evict")
int BPF_PROG(writers_evict, struct inode___linked *inode)
{
	struct btrfs_inode *whole;
	struct inode_key k;
	u64 *to;

	if (!inode || inode->i_nlink)
		return 0;
	if (in_worker()) {
		whole = (void *)((u64)inode - bpf_core_field_offset(struct btrfs_inode, vfs_inode));
		k = key_of(inode->i_sb, BPF_CORE_READ(whole, root, root_key.objectid), inode->i_ino);
		to = bpf_map_lookup_elem(&owners, &k);
		if (to)
			return book_for(*to, 0, -1);
	}
	return book_here(inode->i_sb, 0, -1, BTRFS_EVICT);
}
