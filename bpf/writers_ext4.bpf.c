//go:build ignore
/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Counts what each cgroup takes and gives back on ext4. A change is counted
 * where the task that causes it still runs, for the cgroup of that task:
 *
 *	+ a promise for delayed allocation	ext4_da_reserve_space
 *	+ an allocation that was not promised	ext4_allocate_blocks
 *	- a promise that is not used		ext4_da_release_space,
 *						ext4_da_update_reserve_space
 *	- blocks freed				ext4_free_blocks
 *
 * Write-back turns promises into blocks in a worker. Those allocations are
 * marked as promised and skipped, so nothing counts twice and nothing counts
 * for the worker. The task that drops the last reference to an inode frees its
 * blocks. For unlink and truncate that is the caller. For a file that was
 * deleted while open it is the task that closes it last. That can be in the
 * task's exit, before it leaves its cgroup (do_exit: exit_files and
 * exit_task_work come before cgroup_exit).
 */
#include "headers/writers.h"

char LICENSE[] SEC("license") = "GPL";

/* fs/ext4/ext4.h */
#define EXT4_MB_DELALLOC_RESERVED 0x0400
#define EXT4_MB_HINT_DATA 0x0020
#define EXT4_FREE_BLOCKS_METADATA 0x0001

#define S_IFMT 0170000
#define S_IFREG 0100000

volatile const bool reserve_has_count = false; /* set by the loader */

static __always_inline u32 unit_bits(struct super_block___blocks *sb)
{
	struct ext4_sb_info *sbi = sb->s_fs_info;

	return BPF_CORE_READ(sbi, s_cluster_bits) + sb->s_blocksize_bits;
}

/* As in usage_ext4.bpf.c: older kernels reserve one cluster at a time. */
SEC("tp_btf/ext4_da_reserve_space")
int writers_reserve(unsigned long long *ctx)
{
	struct inode___mode *inode = (void *)ctx[0];
	struct account *a = inode ? account_of(inode->i_sb, EXT4_RESERVE) : NULL;
	u64 clusters = 1;

	if (!a)
		return 0;
	if (reserve_has_count)
		clusters = (u32)(*(volatile u64 *)&ctx[1]);
	a->grown += clusters << (a->unit_bits & 31);
	return 0;
}

SEC("tp_btf/ext4_da_release_space")
int BPF_PROG(writers_release, struct inode___mode *inode, int clusters)
{
	struct account *a = inode ? account_of(inode->i_sb, EXT4_RELEASE) : NULL;

	if (a)
		a->shrunk += (u64)(u32)clusters << (a->unit_bits & 31);
	return 0;
}

/*
 * If claimed is set, the promise has become blocks, which changes nothing.
 * Otherwise blocks were allocated in its place and counted then, so the promise
 * is given back: fallocate over data that was not written back yet
 * (ext4_da_update_reserve_space).
 */
SEC("tp_btf/ext4_da_update_reserve_space")
int BPF_PROG(writers_redeem, struct inode___mode *inode, int clusters, int claimed)
{
	struct account *a;

	if (claimed || !inode)
		return 0;
	a = account_of(inode->i_sb, EXT4_REDEEM);
	if (a)
		a->shrunk += (u64)(u32)clusters << (a->unit_bits & 31);
	return 0;
}

/*
 * Blocks of a regular file's extent tree are not counted when they are
 * allocated or freed: write-back allocates them, and the file's owner frees
 * them. They are less than one in 300. Everything in a directory counts.
 */
SEC("tp_btf/ext4_allocate_blocks")
int BPF_PROG(writers_allocate, struct ext4_allocation_request *ar)
{
	struct inode___mode *inode;
	struct account *a;

	if (!ar || ar->flags & EXT4_MB_DELALLOC_RESERVED)
		return 0;
	inode = (void *)ar->inode;
	if ((inode->i_mode & S_IFMT) == S_IFREG && !(ar->flags & EXT4_MB_HINT_DATA))
		return 0;
	a = account_of(inode->i_sb, EXT4_ALLOCATE);
	if (a)
		a->grown += (u64)ar->len << (a->unit_bits & 31);
	return 0;
}

SEC("tp_btf/ext4_free_blocks")
int BPF_PROG(writers_free, struct inode___mode *inode, u64 block, unsigned long blocks, int flags)
{
	struct account *a;

	if (!inode)
		return 0;
	if ((inode->i_mode & S_IFMT) == S_IFREG && flags & EXT4_FREE_BLOCKS_METADATA)
		return 0;
	a = account_of(inode->i_sb, EXT4_FREE);
	if (a)
		a->shrunk += (u64)blocks << (inode->i_blkbits & 31);
	return 0;
}

SEC("tp_btf/ext4_allocate_inode")
int BPF_PROG(writers_make, struct inode___mode *inode)
{
	struct account *a = inode ? account_of(inode->i_sb, EXT4_MAKE) : NULL;

	if (a)
		a->made++;
	return 0;
}

SEC("tp_btf/ext4_free_inode")
int BPF_PROG(writers_remove, struct inode___mode *inode)
{
	struct account *a = inode ? account_of(inode->i_sb, EXT4_REMOVE) : NULL;

	if (a)
		a->removed++;
	return 0;
}
