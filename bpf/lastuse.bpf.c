//go:build ignore
/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Last use of container images.
 *
 * An image is in use as long as a process runs with its files as root. The use
 * begins with the exec that starts the container, and ends with the exit of its
 * last process. Every exec and every process exit sets the stamp. So a
 * container that slept for a week is stamped when it ends, and no table of live
 * containers is needed: nothing can fill up or leak, and a cgroup v2 hierarchy
 * is not needed either.
 *
 * A process is matched to an image by the superblock its root lies on. For
 * overlayfs, the topmost lower directory is the unpacked last layer of the
 * image, whatever file is run and however it was started.
 */
#include "headers/kernel.h"
#include "headers/filesystem.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/* A directory: filesystem_id() of its superblock, and its inode number. */
struct layer_key {
	u64 dev;
	u64 ino;
};

struct stamp {
	u64 last_ns; /* CLOCK_BOOTTIME; 0 is never */
	u64 uses;    /* execs and process exits */
};

struct lastuse_counters {
	u64 execs;	     /* in an overlay root */
	u64 exits;	     /* of whole processes, in an overlay root */
	u64 stamped;	     /* found in layers */
	u64 unresolved;	     /* kept in unresolved until user space asks */
	u64 unresolved_full; /* lost: no room in unresolved */
	u64 unreadable;	     /* lost: the overlay could not be followed */
};

struct super_block___layer {
	u32 s_dev;
	unsigned long s_magic;
	struct {
	} s_uuid;
} CORE;

/* Which slot of stamps belongs to a layer. Written by user space only. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct layer_key);
	__type(value, u32);
} layers SEC(".maps");

/* One slot for each entry layers can have, so it cannot fill up first. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, struct stamp);
} stamps SEC(".maps");

/*
 * The last use, by CLOCK_BOOTTIME, of layers that are not in layers: the image
 * has only just arrived, or came while the agent was down. The map is
 * preallocated and never evicts. When it is full, new entries are lost and
 * counted, and old ones are kept.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct layer_key);
	__type(value, u64);
} unresolved SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct lastuse_counters);
} lastuse_counts SEC(".maps");

static __always_inline struct lastuse_counters *counts(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&lastuse_counts, &zero);
}

/*
 * top_layer finds the topmost lower directory of an overlay superblock.
 * layers[0] is reserved for the upper directory, also where there is none
 * (ovl_get_layers, fs/overlayfs/super.c). The memory stays valid: the caller
 * holds a root on this superblock.
 */
static __always_inline bool top_layer(struct super_block *sb, struct layer_key *key)
{
	struct ovl_fs *ofs = sb->s_fs_info;
	struct super_block___layer *sb_below;
	struct ovl_layer *layer;
	struct dentry *root;

	if (BPF_CORE_READ(ofs, numlayer) < 2)
		return false;
	layer = (void *)BPF_CORE_READ(ofs, layers) + bpf_core_type_size(struct ovl_layer);
	root = BPF_CORE_READ(layer, mnt, mnt_root);
	key->ino = BPF_CORE_READ(root, d_inode, i_ino);
	sb_below = (void *)BPF_CORE_READ(root, d_sb);
	key->dev = filesystem_id(BPF_CORE_READ(sb_below, s_dev), BPF_CORE_READ(sb_below, s_magic), &sb_below->s_uuid);
	return key->ino != 0;
}

static __always_inline void stamp_layer(struct lastuse_counters *n, struct layer_key *key)
{
	u64 now = bpf_ktime_get_boot_ns();
	u32 *slot = bpf_map_lookup_elem(&layers, key);
	struct stamp *s;

	if (slot) {
		s = bpf_map_lookup_elem(&stamps, slot);
		if (s) {
			/* Times of racing CPUs differ by less than the race lasts. */
			s->last_ns = now;
			__sync_fetch_and_add(&s->uses, 1);
			add_one(&n->stamped);
		}
		return;
	}
	if (bpf_map_update_elem(&unresolved, key, &now, BPF_ANY))
		add_one(&n->unresolved_full);
	else
		add_one(&n->unresolved);
}

static __always_inline struct super_block *overlay_root(struct task_struct *task)
{
	struct super_block *sb = task->fs->root.dentry->d_sb;

	return sb->s_magic == OVERLAYFS_SUPER_MAGIC ? sb : 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(lastuse_exec, struct task_struct *task)
{
	struct super_block *sb = overlay_root(task);
	struct lastuse_counters *n = counts();
	struct layer_key key = {};

	if (!sb || !n)
		return 0;
	add_one(&n->execs);
	if (top_layer(sb, &key))
		stamp_layer(n, &key);
	else
		add_one(&n->unreadable);
	return 0;
}

/*
 * do_exit() calls this tracepoint before exit_fs(), so task->fs is still there.
 * signal->live has been decremented already: it is 0 for the last thread of the
 * process.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(lastuse_exit, struct task_struct *task)
{
	struct super_block *sb = overlay_root(task);
	struct lastuse_counters *n = counts();
	struct layer_key key = {};

	if (!sb || !n || task->signal->live.counter != 0)
		return 0;
	add_one(&n->exits);
	if (top_layer(sb, &key))
		stamp_layer(n, &key);
	else
		add_one(&n->unreadable);
	return 0;
}
