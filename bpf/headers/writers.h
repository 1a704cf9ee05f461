/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Books what a task took or gave back to its cgroup, the same for every
 * filesystem. A program at a tracepoint gets the account of its filesystem from
 * account_of(), and adds to it.
 *
 * The file that includes this defines unit_bits(), the shift that turns its
 * figures into bytes.
 */
#ifndef EBB_WRITERS_H
#define EBB_WRITERS_H

#include "kernel.h"
#include "cgroup.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define PATH_SIZE 384
#define NAME_SIZE 128
#define ID_DIGITS 64
#define MAX_DEPTH 16
#define WRITERS 4096

struct writer {
	u64 grown;  /* bytes */
	u64 shrunk; /* bytes */
	u64 made;   /* inodes */
	u64 removed;
	u64 ended_ns; /* CLOCK_BOOTTIME of the cgroup's removal; 0: it exists */
	char path[PATH_SIZE]; /* set at its end; a longer one is cut */
};

/* Keeps the type in the object with its name. */
const struct writer *writer_type __attribute__((unused));

/*
 * Changes that a program has counted on a CPU, but not booked yet, for the
 * cgroup that it last saw on a watched filesystem. ext4 promises one block at a
 * time, so most changes are of the same cgroup and filesystem as the one
 * before. Such a change costs an addition here instead of three lookups.
 *
 * An account has one user at a time, on every kernel. None of these tracepoints
 * is hit in an interrupt, and up to Linux 6.19 programs at tracepoints are not
 * preempted. Later they can be (tracepoint_srcu in kernel/tracepoint.c), and
 * another task can run on the CPU, but not the same program. The kernel leaves
 * that run out, and counts it (bpf_prog_inc_misses_counter, called in
 * kernel/trace/bpf_trace.c). Hence each program has accounts of its own.
 */
struct account {
	u64 cgroup; /* of the task; 0: none */
	u64 dev;
	u64 watching; /* the map's value when this was opened */
	u64 other;    /* a filesystem that is not watched */
	u64 other_watching;
	u64 to; /* key in writers; 0: found no room */
	u64 booked; /* how often it was emptied into writers */
	u64 changes; /* ever */
	u64 grown;
	u64 shrunk;
	u64 made;
	u64 removed;
	u32 unit_bits; /* of dev */
	u32 pad;
};

/* The programs that have accounts. */
enum account_user {
	EXT4_RESERVE,
	EXT4_RELEASE,
	EXT4_REDEEM,
	EXT4_ALLOCATE,
	EXT4_FREE,
	EXT4_MAKE,
	EXT4_REMOVE,
	XFS_TRANS,
	XFS_INSERT,
	XFS_DROP,
	XFS_AFTER,
	XFS_INACTIVE,
	XFS_EOFBLOCKS,
	XFS_COWBLOCKS,
	XFS_INACTIVATING,
	XFS_TRUNCATE,
	XFS_CANCEL,
	XFS_REMAP,
	BTRFS_PROMISED,
	BTRFS_WAITED,
	BTRFS_OUTSTANDING,
	BTRFS_ORDERED,
	BTRFS_UNWRITTEN,
	BTRFS_DROPPING,
	BTRFS_DROPPED,
	BTRFS_NEW,
	BTRFS_EVICT,
	ACCOUNTS,
};

struct writers_counters {
	u64 lost;	  /* changes without a writer: no room, or its cgroup unreadable */
	u64 bytes_lost;	  /* grown or shrunk by those */
	u64 members_full; /* cgroups that have to be looked up each time */
	u64 unowned;	  /* changes by workers for an unknown owner; count for the root cgroup */
};

/* By cgroup id: of the cgroup that is named after a container, or of any other. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WRITERS);
	__type(key, u64);
	__type(value, struct writer);
} writers SEC(".maps");

/* From a cgroup to the key in writers that its changes are booked to. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WRITERS);
	__type(key, u64);
	__type(value, u64);
} members SEC(".maps");

/* The watched filesystems, by s_dev. Written by user space only. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, u64);
	__type(value, u32);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct writers_counters);
} writers_counts SEC(".maps");

/* User space changes this after it has changed devices. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} watching SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ACCOUNTS);
	__type(key, u32);
	__type(value, struct account);
} accounts SEC(".maps");

/* A writer is too large for the stack; this one is all zero. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct writer);
} blank SEC(".maps");

/* 1 for a lower-case hexadecimal digit, as in a container's id. */
const volatile u8 hex[256] = {
	['0'] = 1, ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1, ['6'] = 1, ['7'] = 1,
	['8'] = 1, ['9'] = 1, ['a'] = 1, ['b'] = 1, ['c'] = 1, ['d'] = 1, ['e'] = 1, ['f'] = 1,
};

static __always_inline u32 unit_bits(struct super_block___blocks *sb);

static __always_inline struct writers_counters *counts(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&writers_counts, &zero);
}

/*
 * names_container reports whether a cgroup's name bears a generated container
 * id: 64 hexadecimal digits in a row, whatever the runtime puts around them.
 * The loop has no branch, because the verifier would walk both ways of each.
 * The function is not static and takes a number, so it is verified once, not at
 * each level.
 */
__noinline int names_container(u64 node)
{
	struct kernfs_node *kn = (void *)node;
	u32 run = 0, found = 0, i;
	char name[NAME_SIZE] = {};

	if (bpf_probe_read_kernel_str(name, NAME_SIZE, BPF_CORE_READ(kn, name)) <= ID_DIGITS)
		return 0;
	for (i = 0; i < NAME_SIZE; i++) {
		run = (run + 1) * hex[(u8)name[i]];
		found |= run & ID_DIGITS;
	}
	return found != 0;
}

static __always_inline struct kernfs_node *parent_of(struct kernfs_node *kn)
{
	struct kernfs_node___old *old = (void *)kn;

	if (bpf_core_field_exists(kn->__parent))
		return BPF_CORE_READ(kn, __parent);
	return BPF_CORE_READ(old, parent);
}

/*
 * stands_for returns the cgroup that the current task's changes are booked to:
 * the nearest one, from its own upwards, that is named after a container. So
 * groups that a container makes for itself count for the container. If there is
 * none it is the task's own: a service of the host, or a container whose id a
 * person chose, which only user space can know.
 */
static __noinline u64 stands_for(u64 own)
{
	struct task_struct___cgroups *task = (void *)bpf_get_current_task();
	struct kernfs_node *kn = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn);
	int level;

	if (BPF_CORE_READ(kn, id) != own)
		return 0;
	for (level = 0; level < MAX_DEPTH && kn; level++) {
		if (names_container((u64)kn))
			return BPF_CORE_READ(kn, id);
		kn = parent_of(kn);
	}
	return own;
}

static __noinline u64 join(u64 own)
{
	u64 id = own, to = stands_for(own);
	struct writers_counters *n = counts();
	u32 zero = 0;
	void *fresh = bpf_map_lookup_elem(&blank, &zero);

	if (!n || !fresh)
		return 0;
	if (!to)
		return 0;
	bpf_map_update_elem(&writers, &to, fresh, BPF_NOEXIST);
	if (bpf_map_update_elem(&members, &id, &to, BPF_ANY))
		add_one(&n->members_full);
	return to;
}

/* book empties an account into its writer. */
static __always_inline void book(struct account *a, struct writers_counters *n)
{
	struct writer *w;
	u64 to = a->to;

	if (!to) {
		__sync_fetch_and_add(&n->bytes_lost, a->grown + a->shrunk);
	} else {
		/* A missing writer was read, with what is in this account, and forgotten. */
		w = bpf_map_lookup_elem(&writers, &to);
		if (w) {
			__sync_fetch_and_add(&w->grown, a->grown);
			__sync_fetch_and_add(&w->shrunk, a->shrunk);
			__sync_fetch_and_add(&w->made, a->made);
			__sync_fetch_and_add(&w->removed, a->removed);
		}
	}
	a->booked++;
	a->grown = a->shrunk = a->made = a->removed = 0;
}

/*
 * turn_over books an account and gives it to another cgroup or filesystem. As
 * long as there is no room for a cgroup's writer, the account has no cgroup. So
 * it is turned over at each change, and gets a writer as soon as there is room.
 */
static __noinline struct account *turn_over(struct account *a, struct super_block___blocks *sb, u64 own,
					    u64 now_watching)
{
	struct writers_counters *n = counts();
	u64 dev = sb->s_dev, to = 0;
	u64 *known;

	if (!n)
		return 0;
	if (!bpf_map_lookup_elem(&devices, &dev)) {
		a->other = dev;
		a->other_watching = now_watching;
		return 0;
	}
	book(a, n);
	known = bpf_map_lookup_elem(&members, &own);
	if (known)
		to = *known;
	if (!to || !bpf_map_lookup_elem(&writers, &to))
		to = join(own);
	if (to && !bpf_map_lookup_elem(&writers, &to))
		to = 0;
	if (!to)
		add_one(&n->lost);
	a->to = to;
	a->cgroup = to ? own : 0;
	a->dev = dev;
	a->watching = now_watching;
	a->unit_bits = unit_bits(sb) & 31;
	return a;
}

/* account_of returns the current task's account on a filesystem; 0 if that is not watched. */
static __always_inline struct account *account_of(struct super_block___blocks *sb, const u32 me)
{
	u64 own = bpf_get_current_cgroup_id(), dev;
	u32 zero = 0, at = me;
	struct account *a = bpf_map_lookup_elem(&accounts, &at);
	u64 *w = bpf_map_lookup_elem(&watching, &zero);

	if (!a || !w)
		return 0;
	dev = sb->s_dev;
	if (a->other == dev && a->other_watching == *w)
		return 0;
	if (a->cgroup != own || a->dev != dev || a->watching != *w)
		a = turn_over(a, sb, own, *w);
	if (a)
		a->changes++;
	return a;
}

#endif
