//go:build ignore
/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Counts what each cgroup takes and gives back on xfs. Every transaction sums
 * up the free blocks that it takes and gives back, and the inodes that it takes
 * into use (xfs_trans_mod_sb). xfs_trans_free is the last to see the sums, once
 * for each link of a rolled chain. Blocks that were promised to delayed
 * allocation before are summed apart and not counted again.
 *
 * Promises are seen where delayed extents enter the in-memory list of an inode,
 * are changed, or leave it: in the writer's context. If extents leave the list
 * in a transaction, its end shows how much of them has become blocks
 * (t_res_fdblocks_delta); the promise for the rest was taken back. The blocks
 * that are promised for the extent tree as well (xfs_bmap_worst_indlen) are
 * left out: almost all come back at write-back.
 *
 * Shared extents take nothing when they are made (reflink). The task that drops
 * the last reference gives them back.
 *
 * Workers do three things:
 *
 *	the blocks of a deleted file are freed		xfs_inodegc_worker
 *	what was preallocated behind the end of a file
 *	or for copies on write is taken back		xfs_blockgc_worker
 *	written copies replace shared extents		xfs_end_io
 *
 * They are booked for the inode's owner: the cgroup that deleted it, or closed
 * it last (xfs_inode_set_need_inactive), or wrote what made the preallocation.
 */
#include "headers/owners.h"

char LICENSE[] SEC("license") = "GPL";

#define PF_MEMALLOC_NOFS 0x00040000 /* include/linux/sched.h */

struct xfs_iext_rec {
	u64 lo;
	u64 hi;
} CORE;

struct xfs_iext_leaf {
	struct xfs_iext_rec recs[15];
} CORE;

struct xfs_iext_cursor {
	struct xfs_iext_leaf *leaf;
	int pos;
} CORE;

struct inode___links {
	unsigned int i_nlink;
} CORE;

struct xfs_inode___whole {
	struct xfs_mount *i_mount;
	u64 i_ino;
	struct inode___links i_vnode;
} CORE;

struct xfs_trans___sums {
	struct xfs_mount *t_mountp;
	s64 t_icount_delta;
	s64 t_ifree_delta;
	s64 t_fdblocks_delta;
	s64 t_res_fdblocks_delta;
} CORE;

static __always_inline u32 unit_bits(struct super_block___blocks *sb)
{
	return sb->s_blocksize_bits;
}

/* For whom a worker works at the moment; by thread. */
struct work {
	u64 to;
	u64 inactive; /* 1: until the inode is reclaimable; 0: until the transaction ends */
	u64 rolled;   /* a link of the transaction that is not its last */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, u32);
	__type(value, struct work);
} works SEC(".maps");

/* Delayed blocks that left an inode's list, until it is known why; by thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 512);
	__type(key, u32);
	__type(value, u64);
} leaving SEC(".maps");

static __always_inline struct super_block___blocks *super_of(struct xfs_mount *mp)
{
	return (void *)mp->m_super;
}

static __always_inline u32 thread(void)
{
	return bpf_get_current_pid_tgid();
}

static __always_inline struct work *work_of(u32 id)
{
	return bpf_map_lookup_elem(&works, &id);
}

/* count books for the current task, or for the owner it works for. */
static __always_inline int count(struct xfs_mount *mp, s64 blocks, s64 inodes, const u32 me)
{
	struct super_block___blocks *sb = super_of(mp);
	struct work *w;

	if (in_worker()) {
		w = work_of(thread());
		if (w)
			return book_for(w->to, blocks * (1 << (sb->s_blocksize_bits & 31)), inodes);
	}
	return book_here(sb, blocks, inodes, me);
}

/* in_transaction: xfs_trans_alloc sets PF_MEMALLOC_NOFS on its thread. */
static __always_inline bool in_transaction(void)
{
	struct task_struct___worker *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, flags) & PF_MEMALLOC_NOFS;
}

/*
 * promise books what enters the list, less what has just left it: most changes
 * make an extent longer.
 */
static __always_inline int promise(struct xfs_inode___whole *ip, s64 blocks, const u32 me)
{
	u32 id = thread();
	u64 *left = bpf_map_lookup_elem(&leaving, &id);

	if (left) {
		blocks -= *left;
		if (blocks < 0 && in_transaction()) {
			*left = -blocks;
			return 0;
		}
		bpf_map_delete_elem(&leaving, &id);
	}
	return blocks ? count(ip->i_mount, blocks, 0, me) : 0;
}

/*
 * leave notes blocks that left the list. Some may come back, or the end of the
 * transaction shows what became of them.
 */
static __always_inline int leave(u64 blocks)
{
	struct writers_counters *n = counts();
	u32 id = thread();
	u64 *left;

	if (!blocks)
		return 0;
	left = bpf_map_lookup_elem(&leaving, &id);
	if (left)
		*left += blocks;
	else if (bpf_map_update_elem(&leaving, &id, &blocks, BPF_NOEXIST) && n)
		add_one(&n->lost);
	return 0;
}

/*
 * withdrawn returns how many promised blocks the transaction gave up, those
 * that left the list less those redeemed.
 */
static __always_inline s64 withdrawn(s64 redeemed)
{
	u32 id = thread();
	u64 *left = bpf_map_lookup_elem(&leaving, &id);
	s64 blocks;

	if (!left)
		return 0;
	blocks = *left;
	bpf_map_delete_elem(&leaving, &id);
	return blocks > redeemed ? blocks - redeemed : 0;
}

SEC("tp_btf/xfs_trans_free")
int BPF_PROG(writers_trans, struct xfs_trans___sums *tp)
{
	s64 blocks, inodes;
	struct work *w;
	u32 id;

	if (!tp)
		return 0;
	blocks = -tp->t_fdblocks_delta - withdrawn(-tp->t_res_fdblocks_delta);
	inodes = tp->t_icount_delta - tp->t_ifree_delta;
	if (blocks || inodes)
		count(tp->t_mountp, blocks, inodes, XFS_TRANS);
	if (!in_worker())
		return 0;
	id = thread();
	w = work_of(id);
	if (w && !w->inactive && w->rolled != (u64)tp)
		bpf_map_delete_elem(&works, &id);
	return 0;
}

SEC("tp_btf/xfs_trans_roll")
int BPF_PROG(writers_roll, struct xfs_trans___sums *tp)
{
	struct work *w = in_worker() ? work_of(thread()) : NULL;

	if (w)
		w->rolled = (u64)tp;
	return 0;
}

/*
 * delayed returns the length of the extent at a cursor in blocks, 0 unless it
 * is a delayed one. Layout: fs/xfs/libxfs/xfs_iext_tree.c; a delayed extent has
 * no start block, which isnullstartblock() in xfs_bmap_btree.h recognizes.
 */
static __always_inline u64 delayed(struct xfs_iext_cursor *cur)
{
	struct xfs_iext_leaf *leaf = BPF_CORE_READ(cur, leaf);
	int pos = BPF_CORE_READ(cur, pos);
	struct xfs_iext_rec rec;
	u64 start;

	if (!leaf || pos < 0 || pos >= 15)
		return 0;
	if (bpf_probe_read_kernel(&rec, sizeof(rec), (void *)leaf + pos * sizeof(rec)))
		return 0;
	start = rec.lo >> 54 | rec.hi >> 22 << 10;
	if (start >> 17 != (1ULL << 35) - 1)
		return 0;
	return rec.hi & ((1 << 21) - 1);
}

SEC("tp_btf/xfs_iext_insert")
int BPF_PROG(writers_insert, struct xfs_inode___whole *ip, struct xfs_iext_cursor *cur)
{
	u64 blocks = ip && cur ? delayed(cur) : 0;

	return blocks ? promise(ip, blocks, XFS_INSERT) : 0;
}

SEC("tp_btf/xfs_iext_remove")
int BPF_PROG(writers_drop, struct xfs_inode___whole *ip, struct xfs_iext_cursor *cur)
{
	u64 blocks = ip && cur ? delayed(cur) : 0;

	if (!blocks || in_transaction())
		return leave(blocks);
	return count(ip->i_mount, -(s64)blocks, 0, XFS_DROP);
}

SEC("tp_btf/xfs_bmap_pre_update")
int BPF_PROG(writers_before, struct xfs_inode___whole *ip, struct xfs_iext_cursor *cur)
{
	return ip && cur ? leave(delayed(cur)) : 0;
}

SEC("tp_btf/xfs_bmap_post_update")
int BPF_PROG(writers_after, struct xfs_inode___whole *ip, struct xfs_iext_cursor *cur)
{
	return ip && cur ? promise(ip, delayed(cur), XFS_AFTER) : 0;
}

static __always_inline struct inode_key key_of(struct xfs_inode___whole *ip)
{
	struct inode_key k = {.fs = (u64)ip->i_mount, .ino = ip->i_ino};

	return k;
}

/* A file without a name is given up by the task that held it last. */
SEC("tp_btf/xfs_inode_set_need_inactive")
int BPF_PROG(writers_inactive, struct xfs_inode___whole *ip)
{
	struct inode_key k;

	if (!ip || ip->i_vnode.i_nlink || in_worker())
		return 0;
	k = key_of(ip);
	return own(super_of(ip->i_mount), &k, XFS_INACTIVE);
}

static __always_inline int preallocated(struct xfs_inode___whole *ip, const u32 me)
{
	struct inode_key k;

	if (!ip || in_worker())
		return 0;
	k = key_of(ip);
	return own(super_of(ip->i_mount), &k, me);
}

SEC("tp_btf/xfs_inode_set_eofblocks_tag")
int BPF_PROG(writers_eofblocks, struct xfs_inode___whole *ip)
{
	return preallocated(ip, XFS_EOFBLOCKS);
}

SEC("tp_btf/xfs_inode_set_cowblocks_tag")
int BPF_PROG(writers_cowblocks, struct xfs_inode___whole *ip)
{
	return preallocated(ip, XFS_COWBLOCKS);
}

/* begin notes that what this worker does next is for the owner of the inode. */
static __always_inline int begin(struct xfs_inode___whole *ip, u64 inactive, const u32 me)
{
	struct work w = {.inactive = inactive}, *busy;
	struct writers_counters *n = counts();
	u32 id = thread();
	struct inode_key k;
	u64 *to;

	if (!ip || !in_worker())
		return 0;
	busy = work_of(id);
	if (busy && busy->inactive)
		return 0;
	k = key_of(ip);
	to = bpf_map_lookup_elem(&owners, &k);
	if (!to) {
		if (n && !ip->i_vnode.i_nlink && account_of(super_of(ip->i_mount), me))
			add_one(&n->unowned);
		if (busy)
			bpf_map_delete_elem(&works, &id);
		return 0;
	}
	w.to = *to;
	bpf_map_update_elem(&works, &id, &w, BPF_ANY);
	return 0;
}

SEC("tp_btf/xfs_inode_inactivating")
int BPF_PROG(writers_inactivating, struct xfs_inode___whole *ip)
{
	return begin(ip, 1, XFS_INACTIVATING);
}

SEC("tp_btf/xfs_itruncate_extents_start")
int BPF_PROG(writers_truncate, struct xfs_inode___whole *ip)
{
	return begin(ip, 0, XFS_TRUNCATE);
}

SEC("tp_btf/xfs_reflink_cancel_cow_range")
int BPF_PROG(writers_cancel, struct xfs_inode___whole *ip)
{
	return begin(ip, 0, XFS_CANCEL);
}

SEC("tp_btf/xfs_reflink_cow_remap_from")
int BPF_PROG(writers_remap, struct xfs_inode___whole *ip)
{
	return begin(ip, 0, XFS_REMAP);
}

SEC("tp_btf/xfs_inode_set_reclaimable")
int BPF_PROG(writers_reclaimable, struct xfs_inode___whole *ip)
{
	struct inode_key k;
	u32 id = thread();

	if (!ip)
		return 0;
	k = key_of(ip);
	bpf_map_delete_elem(&owners, &k);
	if (in_worker())
		bpf_map_delete_elem(&works, &id);
	return 0;
}
