//go:build ignore
/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The watermark of an xfs filesystem. The figures are those that statfs(2)
 * shows (xfs_fs_statfs): free blocks less those set aside for the free-space
 * btrees; free inodes are those in inode chunks, and all that would fit into
 * free blocks, up to a share of the disk.
 *
 * Space is taken from the counter in two ways. A transaction reserves what it
 * may need at its start and gives back the rest at its end (xfs_trans_reserve,
 * xfs_trans_unreserve_and_mod_sb). xfs_trans_free comes after that, for each
 * link of a rolled chain. A buffered write, or the first write to a mapped
 * page, reserves without a transaction (xfs_bmapi_reserve_delalloc). It does so
 * for a copy-on-write too, and includes what is preallocated beyond the write.
 * xfs_iomap_alloc comes after that. Space comes back only by transactions,
 * except for writes that fail halfway. So a deletion arms the watermark by
 * itself, and own is never needed.
 *
 * Space that other transactions hold at the moment counts as taken, as in
 * statfs(2): an event can be early by that much.
 */
#include "headers/percpu.h"

char LICENSE[] SEC("license") = "GPL";

/*
 * How much a CPU may keep back: XFS_FDBLOCKS_BATCH in fs/xfs/xfs_mount.h, and
 * XFS_ICOUNT_BATCH in xfs_mount.c or xfs_trans.c.
 */
#define XFS_FDBLOCKS_BATCH 1024
#define XFS_ICOUNT_BATCH 128

static __always_inline struct percpu_counter *free_blocks(struct xfs_mount *mp)
{
	if (bpf_core_field_exists(mp->m_fdblocks))
		return &mp->m_fdblocks;
	return &mp->m_free[0].count;
}

/* unavailable is xfs_fdblocks_unavailable. */
static __always_inline s64 unavailable(struct xfs_mount *mp)
{
	s64 blocks = BPF_CORE_READ(mp, m_alloc_set_aside);

	if (bpf_core_field_exists(mp->m_allocbt_blks))
		blocks += BPF_CORE_READ(mp, m_allocbt_blks.counter);
	return blocks;
}

/* free_inodes does what xfs_fs_statfs does with three sums. */
static __always_inline s64 free_inodes(struct xfs_mount *mp, s64 blocks, s64 icount, s64 ifree)
{
	s64 most = BPF_CORE_READ(mp, m_ino_geo.maxicount);
	s64 overshot = BPF_CORE_READ(mp, m_sb.sb_icount);
	s64 files;

	if (blocks < 0)
		blocks = 0;
	files = icount + (blocks << (BPF_CORE_READ(mp, m_sb.sb_inopblog) & 31));
	if (most && files > most)
		files = most;
	if (files < overshot)
		files = overshot;
	return files - icount + ifree;
}

/* glance costs a few loads and no loop. */
static __always_inline void glance(struct xfs_mount *mp, u32 resource, struct reading *r)
{
	s64 blocks = approximate(free_blocks(mp)) - unavailable(mp);

	r->err = (s64)XFS_FDBLOCKS_BATCH * nr_cpus;
	if (resource == RESOURCE_BYTES) {
		r->free = blocks;
		return;
	}
	r->free = free_inodes(mp, blocks, approximate(&mp->m_icount), approximate(&mp->m_ifree));
	r->err <<= BPF_CORE_READ(mp, m_sb.sb_inopblog) & 31;
	r->err += (s64)(XFS_ICOUNT_BATCH + counter_batch) * nr_cpus;
}

static __noinline int look(void *fs, u32 resource, struct reading *r)
{
	struct xfs_mount *mp = fs;
	s64 free = 0, icount = 0, ifree = 0;
	int ok = exact(free_blocks(mp), &free);

	free -= unavailable(mp);
	if (resource == RESOURCE_INODES) {
		ok = ok && exact(&mp->m_icount, &icount) && exact(&mp->m_ifree, &ifree);
		free = free_inodes(mp, free, icount, ifree);
	}
	settle(r, ok, free);
	return 0;
}

static __always_inline int check(struct xfs_mount *mp, struct watch *w, u64 dev, u32 resource)
{
	struct usage_counters *n = counts();
	struct watermark *l = watermark_of(w, resource);
	struct reading r = {};

	if (!l || !n)
		return 0;
	n->checked++;
	glance(mp, resource, &r);
	return check_watermark(mp, l, dev, resource, &r);
}

/* Free inodes fall with free blocks, so every allocation is checked for both. */
static __always_inline int taken(struct xfs_mount *mp)
{
	u64 dev = BPF_CORE_READ(mp, m_super, s_dev);
	struct watch *w = bpf_map_lookup_elem(&watches, &dev);

	if (!w)
		return 0;
	check(mp, w, dev, RESOURCE_BYTES);
	return check(mp, w, dev, RESOURCE_INODES);
}

/*
 * gave_back counts what a transaction freed of extents, less what it allocated
 * without a promise. Blocks that were only promised to writes are not included
 * (t_res_fdblocks_delta).
 */
static __always_inline void gave_back(struct xfs_trans *tp)
{
	s64 freed = tp->t_fdblocks_delta;

	if (freed > 0)
		give_back(BPF_CORE_READ(tp, t_mountp, m_super, s_dev), freed);
}

SEC("tp_btf/xfs_trans_free")
int BPF_PROG(usage_trans, struct xfs_trans *tp)
{
	if (!tp)
		return 0;
	gave_back(tp);
	return taken(tp->t_mountp);
}

SEC("tp_btf/xfs_iomap_alloc")
int BPF_PROG(usage_delalloc, struct xfs_inode *ip)
{
	return ip ? taken(ip->i_mount) : 0;
}
