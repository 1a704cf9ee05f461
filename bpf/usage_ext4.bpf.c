//go:build ignore
/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The watermark of an ext4 filesystem. The figure is the one that statfs(2) shows
 * (ext4_statfs): free clusters less those promised to delayed allocation.
 */
#include "headers/near.h"

char LICENSE[] SEC("license") = "GPL";

/* fs/ext4/ext4.h: the blocks were claimed by ext4_da_reserve_space before. */
#define EXT4_MB_DELALLOC_RESERVED 0x0400

/* Set by the loader. */
volatile const bool reserve_has_count = false;

/*
 * glance makes a rough reading with two loads. Each CPU keeps back less than a
 * batch of every counter; free blocks are the difference of two counters.
 */
static __always_inline void glance(struct ext4_sb_info *sbi, u32 resource, struct reading *r)
{
	r->err = (s64)counter_batch * nr_cpus;
	if (resource == RESOURCE_INODES) {
		r->free = approximate(&sbi->s_freeinodes_counter);
		return;
	}
	u32 shift = BPF_CORE_READ(sbi, s_cluster_bits) & 31;

	r->free = (approximate(&sbi->s_freeclusters_counter) -
		   approximate(&sbi->s_dirtyclusters_counter)) << shift;
	r->err = (2 * r->err) << shift;
	r->own <<= shift;
}

/*
 * look makes the reading exact, as statfs would give it now. If that fails, it
 * uses the lower bound: an event early rather than late.
 */
static __noinline int look(void *fs, u32 resource, struct reading *r)
{
	struct ext4_sb_info *sbi = fs;
	s64 free = 0, promised = 0;
	int ok;

	if (resource == RESOURCE_INODES) {
		ok = exact(&sbi->s_freeinodes_counter, &free);
	} else {
		ok = exact(&sbi->s_freeclusters_counter, &free) &&
		     exact(&sbi->s_dirtyclusters_counter, &promised);
		free = (free - promised) << (BPF_CORE_READ(sbi, s_cluster_bits) & 31);
	}
	settle(r, ok, free);
	return 0;
}

/*
 * check compares with the watermark. It is called after an allocation has taken
 * own blocks or inodes, or for bytes that become dirty.
 */
static __always_inline int check(struct super_block *sb, u32 resource, u32 own, u64 dirtied)
{
	struct usage_counters *n = counts();
	u64 dev = sb->s_dev;
	struct watch *w = bpf_map_lookup_elem(&watches, &dev);
	struct reading r = {.own = own};
	struct watermark *l;

	if (!w || !n)
		return 0;
	l = watermark_of(w, resource);
	if (!l)
		return 0;
	n->checked++;
	glance(sb->s_fs_info, resource, &r);
	check_watermark(sb->s_fs_info, l, dev, resource, &r);
	if (resource == RESOURCE_INODES)
		return 0;
	__sync_fetch_and_add(&w->dirtied, dirtied);
	return approach(sb, w, dev, &r);
}

/*
 * A folio becomes dirty after its blocks were promised: write(2) and a page
 * fault both promise first (ext4_da_write_begin, ext4_page_mkwrite). The number
 * of blocks is not known here. It is not needed: only rearming uses it, and a
 * filesystem whose watermark is disarmed is near.
 */
SEC("tp_btf/writeback_dirty_folio")
int BPF_PROG(usage_dirty, struct folio *folio, struct address_space *mapping)
{
	u64 flags, order = 0;

	if (!folio || !mapping)
		return 0;
	/* folio->flags is the first word, as a number or, since Linux 6.18, a struct. */
	if (bpf_probe_read_kernel(&flags, sizeof(flags), folio))
		return 0;
	if (flags >> bpf_core_enum_value(enum pageflags, PG_head) & 1)
		order = BPF_CORE_READ(folio, _flags_1) & 0xff;
	return check(mapping->host->i_sb, RESOURCE_BYTES, 0, 1ULL << ((order + page_shift) & 63));
}

/*
 * Buffered writes promise blocks here, long before they are allocated. The
 * promise is counted before the tracepoint. Kernels that reserve one cluster at
 * a time do not pass the number of clusters, and their verifier rejects a read
 * of it. So the read must not be moved out of the branch.
 */
SEC("tp_btf/ext4_da_reserve_space")
int usage_reserve(unsigned long long *ctx)
{
	struct inode *inode = (void *)ctx[0];
	u32 own = 1;

	if (!inode)
		return 0;
	if (reserve_has_count)
		own = *(volatile u64 *)&ctx[1];
	return check(inode->i_sb, RESOURCE_BYTES, own, 0);
}

/*
 * Everything else: direct writes, fallocate, directories, extent trees
 * (ext4_mb_new_blocks; counted before the tracepoint). Promised blocks are
 * skipped, because they were checked when they were promised. There is a second
 * reason: their promise is taken back only after this tracepoint
 * (ext4_da_update_reserve_space), so for a moment they count twice.
 */
SEC("tp_btf/ext4_allocate_blocks")
int BPF_PROG(usage_allocate, struct ext4_allocation_request *ar)
{
	if (!ar || ar->flags & EXT4_MB_DELALLOC_RESERVED)
		return 0;
	return check(ar->inode->i_sb, RESOURCE_BYTES, ar->len, 0);
}

/* __ext4_new_inode: at its end, after the counter was decremented. */
SEC("tp_btf/ext4_allocate_inode")
int BPF_PROG(usage_inode, struct inode *inode)
{
	return inode ? check(inode->i_sb, RESOURCE_INODES, 1, 0) : 0;
}

/*
 * The free space does not show what a removal freed if a process writes as
 * fast. Blocks count when others can take them, as in statfs.
 */
SEC("tp_btf/ext4_free_blocks")
int BPF_PROG(usage_give_back, struct inode *inode, u64 block, unsigned long count)
{
	if (inode)
		give_back(inode->i_sb->s_dev, count);
	return 0;
}
