/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Far from its watermark a filesystem need not be checked at every block.
 *
 * A program at each promised block costs 60 ns, which slows buffered writes at
 * page-cache speed (8 % with an empty program, Linux 6.18). But a promise is
 * made for a page that is about to be dirtied, and a large folio is dirtied
 * once. So while the watermark is far, only a program at writeback_dirty_folio
 * is attached, which compares the same figures. It cannot see blocks promised
 * in a folio that is dirty already: holes of a large folio. The blocks it does
 * not see are therefore less than what is dirty, and the watermark is far as
 * long as
 *
 *	free - dirty - near_blocks > raise
 *
 * When that no longer holds, one event asks user space to attach the other
 * program, and to read the free space once more.
 *
 * The dirty bytes of the device are summed rarely: in between they grow by no
 * more than what this program sees dirtied.
 */
#ifndef EBB_NEAR_H
#define EBB_NEAR_H

#include "percpu.h"

/*
 * Room for what is not counted yet: on every CPU a folio of the largest size
 * ext4 has (ext4_set_inode_mapping_order) can be dirtied and seen, and not yet
 * be in the sum (folio_account_dirtied).
 */
#define FOLIO_BLOCKS 2048

/*
 * With cgroup v2 each cgroup that writes has dirty counts of its own, which
 * last until its inodes are clean. Few nodes run as many containers; with more,
 * the filesystem counts as near. The verifier walks the loop to its end: 512
 * iterations make 95,000 instructions, 0.2 s.
 */
#define MAX_WRITEBACKS 512

/* Set by the loader. */
volatile const bool far_first = false; /* usage_dirty is always attached */
volatile const u32 near_blocks = 0;
volatile const u32 page_shift = 12;
volatile const u32 dirty_batch = 0; /* WB_STAT_BATCH, in pages */

/* dirty_on returns a bound of the dirty bytes on a device; 0 if it cannot. */
static __noinline u64 dirty_on(struct super_block *sb)
{
	struct list_head *head, *at;
	struct bdi_writeback *wb;
	s64 pages = 0;
	int i;

	head = &sb->s_bdi->wb_list;
	at = BPF_CORE_READ(head, next);
	for (i = 0; i < MAX_WRITEBACKS && at != head && at; i++) {
		wb = (void *)at - bpf_core_field_offset(struct bdi_writeback, bdi_node);
		pages += BPF_CORE_READ(wb, stat[WB_RECLAIMABLE].count) + (s64)dirty_batch * nr_cpus;
		at = BPF_CORE_READ(at, next);
	}
	if (at != head || pages <= 0)
		return 0;
	return (u64)pages << (page_shift & 31);
}

/*
 * approach asks user space for the near program once the filesystem is near its
 * watermark. r is a reading of free blocks that was compared with the
 * watermark.
 */
static __always_inline int approach(struct super_block *sb, struct watch *w, u64 dev,
				    struct reading *r)
{
	u64 dirty, seen;
	s64 room;

	if (!far_first || w->near)
		return 0;
	room = (r->free - r->err - (s64)w->bytes.raise - near_blocks) << (sb->s_blocksize_bits & 31);
	seen = w->dirtied;
	if (room > (s64)(w->dirty_then + seen))
		return 0;
	dirty = dirty_on(sb);
	if (dirty) {
		/* CPUs may race: each figure bounds what is dirty later. */
		w->dirty_then = dirty - seen;
		/* Margin: else the next sum would come soon, and it costs time per writer. */
		if (room > (s64)(dirty + dirty / 4 + w->dirtied - seen))
			return 0;
	}
	if (__sync_val_compare_and_swap(&w->near, 0, 1) == 0 &&
	    !send(dev, RESOURCE_NEAR, r->free > 0 ? r->free : 0))
		w->near = 0;
	return 0;
}

#endif
