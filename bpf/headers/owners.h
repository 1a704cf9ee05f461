/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The writers for whom the kernel's workers work. A filesystem that leaves part
 * of a task's work to a worker has a tracepoint for that, which fires in the
 * task. A program at it notes the task's cgroup as the inode's owner. The
 * worker's changes are then booked for the owner.
 */
#ifndef EBB_OWNERS_H
#define EBB_OWNERS_H

#include "writers.h"

#define OWNERS 4096
#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

struct task_struct___worker {
	unsigned int flags;
} CORE;

struct inode_key {
	u64 fs; /* tells filesystems apart, and trees of inodes within one */
	u64 ino;
};

/*
 * The writer that an inode's worker works for. If the map is full, the least
 * recently used entry is evicted. Most programs count a missing owner
 * (unowned).
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OWNERS);
	__type(key, struct inode_key);
	__type(value, u64);
} owners SEC(".maps");

static __always_inline bool in_worker(void)
{
	struct task_struct___worker *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, flags) & PF_KTHREAD;
}

/* own notes the current task's cgroup as the owner of an inode. */
static __always_inline int own(struct super_block___blocks *sb, struct inode_key *k, const u32 me)
{
	struct account *a = account_of(sb, me);
	u64 to, *known;

	if (!a || !a->to)
		return 0;
	to = a->to;
	known = bpf_map_lookup_elem(&owners, k);
	if (!known || *known != to)
		bpf_map_update_elem(&owners, k, &to, BPF_ANY);
	return 0;
}

/* book_for books bytes and inodes for another cgroup than the current task's. */
static __always_inline int book_for(u64 to, s64 bytes, s64 inodes)
{
	struct writer *w = bpf_map_lookup_elem(&writers, &to);

	if (!w)
		return 0; /* user space has read and forgotten it */
	if (bytes > 0)
		__sync_fetch_and_add(&w->grown, bytes);
	else if (bytes < 0)
		__sync_fetch_and_add(&w->shrunk, -bytes);
	if (inodes > 0)
		__sync_fetch_and_add(&w->made, inodes);
	else if (inodes < 0)
		__sync_fetch_and_add(&w->removed, -inodes);
	return 0;
}

/* book_here books for the current task, in the filesystem's units. */
static __always_inline int book_here(struct super_block___blocks *sb, s64 units, s64 inodes, const u32 me)
{
	struct account *a = account_of(sb, me);

	if (!a)
		return 0;
	if (units > 0)
		a->grown += (u64)units << (a->unit_bits & 31);
	else
		a->shrunk += (u64)-units << (a->unit_bits & 31);
	if (inodes > 0)
		a->made += inodes;
	else
		a->removed += -inodes;
	return 0;
}

#endif
