/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Records which files of which image layers were ever read: the part that all
 * tiers share. A program that sees a file being touched calls heat_touch().
 *
 * A touch counts for a layer if the process has an overlayfs as its root and
 * the file lies on a lower layer of that very overlay. Reads of the same file
 * by other processes do not count.
 *
 * Hot files cost one lookup in the table of counted files, which comes first.
 * Everything after that happens once for each file, or for untracked files
 * (volumes, a container's own files) about once a minute.
 */
#ifndef EBB_HEAT_H
#define EBB_HEAT_H

#include "kernel.h"
#include "filesystem.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define S_IFMT 0170000
#define S_IFREG 0100000

/*
 * Programs of a later version use these maps if their shapes are equal. So if
 * you change the meaning of what is in a map, give it another name.
 */
#define HEAT_LAYERS 4096
#define HEAT_BUCKETS 16384
#define HEAT_WORDS 8 /* of a bucket: one cache line */
#define HEAT_UNTRACKED 4096

/* overlayfs takes 500 lower directories; images have at most 127 layers. */
#define MAX_LAYERS 256
#define MAX_DEPTH 64

/* CO-RE ignores the endings after ___ when it matches types. */
struct hlist_node {
	struct hlist_node *next;
} CORE;

struct hlist_head {
	struct hlist_node *first;
} CORE;

struct super_block___heat {
	u32 s_dev;
	unsigned long s_magic;
	void *s_fs_info;
	struct {
	} s_uuid;
} CORE;

struct inode___heat {
	__u16 i_mode;
	struct super_block___heat *i_sb;
	unsigned long i_ino;
	long long i_size;
	u32 i_generation;
	u8 i_blkbits;
	struct hlist_head i_dentry;
} CORE;

struct dentry___heat {
	struct dentry___heat *d_parent;
	struct inode___heat *d_inode;
	struct super_block___heat *d_sb;
	struct {
		struct hlist_node d_alias;
	} d_u;
} CORE;

struct vfsmount___heat {
	struct dentry___heat *mnt_root;
} CORE;

struct path___heat {
	struct vfsmount___heat *mnt;
	struct dentry___heat *dentry;
} CORE;

struct file___heat {
	struct inode___heat *f_inode;
	struct path___heat f_path;
} CORE;

struct address_space___heat {
	struct inode___heat *host;
} CORE;

struct fs_struct___heat {
	struct path___heat root;
} CORE;

struct task_struct___heat {
	struct fs_struct___heat *fs;
} CORE;

/*
 * A layer's root directory. fs is its filesystem_id(). The generation
 * distinguishes a new directory from an earlier one with the same inode number.
 */
struct heat_key {
	u64 fs;
	u64 ino;
	u64 gen;
};

struct heat_layer {
	u64 files;    /* distinct ones that were touched */
	u64 bytes;    /* their sizes, in whole blocks */
	u64 lost;     /* touches that found no room in heat_seen: files is too low */
	u64 since_ns; /* CLOCK_BOOTTIME; 0: the slot is not taken */
};

/* A word is the layer's slot << 48 | 48 bits of the file's hash; 0 is free. */
struct heat_bucket {
	u64 word[HEAT_WORDS];
};

struct heat_counters {
	u64 touched;	 /* files counted, each once */
	u64 untracked;	 /* looked at and on none of the own layers */
	u64 files_full;	 /* lost: touches of files that found no room */
	u64 layers_full; /* lost: touches of layers that found no slot */
	u64 unreadable;	 /* lost: the path from the file to its layer could not be followed */
};

/* The slots of layers. Programs add, user space removes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, HEAT_LAYERS);
	__type(key, struct heat_key);
	__type(value, u32);
} heat_layers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HEAT_LAYERS);
	__type(key, u32);
	__type(value, struct heat_layer);
} heat_slots SEC(".maps");

/*
 * Free slots, in a ring that user space fills. It adds a slot only when no
 * program can hold it and no word in heat_seen bears it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HEAT_LAYERS);
	__type(key, u32);
	__type(value, u32);
} heat_stock SEC(".maps");

/* How many slots user space ever put into the ring, and programs ever took. */
enum {
	STOCK_PUT,
	STOCK_TAKEN,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, u64);
} heat_stocked SEC(".maps");

/* Every file that was counted. Mapped by user space, to free words one by one. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HEAT_BUCKETS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct heat_bucket);
} heat_seen SEC(".maps");

/* Files recently found on none of a container's own layers. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HEAT_UNTRACKED);
	__type(key, u32);
	__type(value, u64);
} heat_untracked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct heat_counters);
} heat_counts SEC(".maps");

/* Set by the loader, which may make the maps smaller. */
volatile const u32 heat_buckets = HEAT_BUCKETS; /* a power of two */
volatile const u32 heat_ring = HEAT_LAYERS;

#define TAG_BITS 48
#define TAG (((u64)1 << TAG_BITS) - 1)

static __always_inline struct heat_counters *counts(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&heat_counts, &zero);
}

/* A field of p: read directly if the verifier trusts the pointer (traced), else by a helper. */
#define FIELD(p, field) (traced ? (p)->field : BPF_CORE_READ(p, field))

static __always_inline u64 filesystem_of(struct super_block___heat *sb, const bool traced)
{
	return filesystem_id(FIELD(sb, s_dev), FIELD(sb, s_magic), &sb->s_uuid);
}

/* mix64 is the end of MurmurHash3: each bit of h changes about half of them. */
static __always_inline u64 mix64(u64 h)
{
	h ^= h >> 33;
	h *= 0xff51afd7ed558ccdULL;
	h ^= h >> 33;
	h *= 0xc4ceb9fe1a85ec53ULL;
	return h ^ h >> 33;
}

static __always_inline u64 hash_of(u64 fs, u64 ino, u64 gen)
{
	u64 h = (fs ^ gen << 32) * 0x9e3779b97f4a7c15ULL;

	return mix64((h ^ h >> 32) + ino);
}

/* The two buckets that a file can be in. */
static __always_inline struct heat_bucket *bucket(u64 hash, int which)
{
	u32 i = which ? hash * 0x9e3779b97f4a7c15ULL >> 40 : hash;

	i &= heat_buckets - 1;
	return bpf_map_lookup_elem(&heat_seen, &i);
}

static __always_inline u64 tag_of(u64 hash) { return hash >> (64 - TAG_BITS) | 1; }

static __always_inline bool holds(struct heat_bucket *b, u64 tag)
{
	int i;

#pragma unroll
	for (i = 0; i < HEAT_WORDS; i++)
		if ((b->word[i] & TAG) == tag)
			return true;
	return false;
}

static __always_inline bool seen(u64 hash)
{
	struct heat_bucket *b = bucket(hash, 0);
	u64 tag = tag_of(hash);

	if (b && holds(b, tag))
		return true;
	b = bucket(hash, 1);
	return b && holds(b, tag);
}

enum {
	INSERTED,
	PRESENT,
	FULL,
};

/*
 * insert takes the first free word. All CPUs go through the words in the same
 * order. So two CPUs that insert the same file meet at the same word, even if
 * one is done before the other looks.
 */
static __always_inline int insert(struct heat_bucket *b, u64 word)
{
	u64 old;
	int i;

	for (i = 0; i < HEAT_WORDS; i++) {
		old = b->word[i];
		if (!old)
			old = __sync_val_compare_and_swap(&b->word[i], 0, word);
		if (!old)
			return INSERTED;
		if ((old & TAG) == (word & TAG))
			return PRESENT;
	}
	return FULL;
}

static __noinline int remember(u64 hash, u32 slot)
{
	u64 word = (u64)slot << TAG_BITS | tag_of(hash);
	struct heat_bucket *b;
	int got = FULL;

	/* Another CPU may have inserted the file, and a word before it may be free by now. */
	if (seen(hash))
		return PRESENT;
	b = bucket(hash, 0);
	if (b)
		got = insert(b, word);
	if (got != FULL)
		return got;
	b = bucket(hash, 1);
	return b ? insert(b, word) : FULL;
}

/*
 * untracked_mark identifies an untracked file for one overlay and about a
 * minute. After that another overlay may have the device number, or there may
 * be room for the file.
 */
static __always_inline u64 untracked_mark(u64 hash, struct super_block___heat *root)
{
	u64 minute = bpf_jiffies64() >> 14; /* 66 s at 250 a second */

	return hash ^ mix64((u64)root->s_dev << 32 ^ minute);
}

static __always_inline bool is_untracked(u64 mark)
{
	u32 i = mark % HEAT_UNTRACKED;
	u64 *known = bpf_map_lookup_elem(&heat_untracked, &i);

	return known && *known == mark;
}

static __always_inline void note_untracked(u64 mark)
{
	u32 i = mark % HEAT_UNTRACKED;
	u64 *known = bpf_map_lookup_elem(&heat_untracked, &i);

	if (known)
		*known = mark;
}

static __always_inline void key_of(struct dentry___heat *dentry, struct heat_key *key)
{
	struct inode___heat *inode = BPF_CORE_READ(dentry, d_inode);
	struct super_block___heat *sb = BPF_CORE_READ(dentry, d_sb);

	key->fs = filesystem_of(sb, false);
	key->ino = BPF_CORE_READ(inode, i_ino);
	key->gen = BPF_CORE_READ(inode, i_generation);
}

/* take_slot returns a slot from the stock, or a negative number. */
static __always_inline int take_slot(void)
{
	u32 which = STOCK_TAKEN, at;
	u64 *taken = bpf_map_lookup_elem(&heat_stocked, &which);
	u64 *put, was;
	u32 *slot;
	int try;

	which = STOCK_PUT;
	put = bpf_map_lookup_elem(&heat_stocked, &which);
	if (!taken || !put)
		return -1;
	for (try = 0; try < 8; try++) {
		was = *(volatile u64 *)taken;
		if (was >= *(volatile u64 *)put)
			return -1;
		at = was % heat_ring;
		slot = bpf_map_lookup_elem(&heat_stock, &at);
		if (!slot)
			return -1;
		at = *slot;
		if (__sync_val_compare_and_swap(taken, was, was + 1) == was)
			return at;
	}
	return -1;
}

/*
 * enter returns the slot of a layer, and gives it one if it has none; -1 if
 * there is none left. If another CPU enters the layer at the same time, a slot
 * is left over that no layer has; user space finds it.
 */
static __noinline int enter(struct heat_key *key)
{
	struct heat_counters *n = counts();
	struct heat_layer *l;
	u32 slot, *known;
	int free;

	known = bpf_map_lookup_elem(&heat_layers, key);
	if (known)
		return *known;
	free = take_slot();
	if (free >= 0) {
		slot = free;
		l = bpf_map_lookup_elem(&heat_slots, &slot);
		if (l)
			l->since_ns = bpf_ktime_get_boot_ns();
		if (!bpf_map_update_elem(&heat_layers, key, &slot, BPF_NOEXIST))
			return slot;
	}
	known = bpf_map_lookup_elem(&heat_layers, key);
	if (known)
		return *known;
	if (n)
		add_one(&n->layers_full);
	return -1;
}

/* Results of the slow path, other than a slot. */
enum {
	UNTRACKED = -1,
	LOST = -2,
};

/* mount_of returns the private mount of an overlay's i-th layer. */
static __always_inline struct vfsmount___heat *mount_of(struct ovl_fs *ofs, u32 i)
{
	struct ovl_layer *layers = BPF_CORE_READ(ofs, layers);

	/* layers[0] is the upper directory (ovl_get_layers, fs/overlayfs/super.c). */
	return (void *)BPF_CORE_READ((struct ovl_layer *)((void *)layers + i * bpf_core_type_size(struct ovl_layer)),
				     mnt);
}

/*
 * A walk through the layers of an overlay, or up from a file. With bpf_loop
 * (Linux 5.17) the verifier checks one step, not every path through all of
 * them.
 */
struct search {
	struct ovl_fs *ofs;
	struct vfsmount___heat *mnt;   /* looked for */
	struct dentry___heat *dentry; /* looked for, or the position on the way up */
	int found;
};

static __always_inline u32 layers_of(struct ovl_fs *ofs)
{
	u32 n = BPF_CORE_READ(ofs, numlayer);

	return n < MAX_LAYERS ? n : MAX_LAYERS;
}

static int is_mount(u32 i, struct search *s)
{
	if (!i || mount_of(s->ofs, i) != s->mnt)
		return 0;
	s->found = 1;
	return 1;
}

/*
 * by_mount finds the layer whose private mount a file was opened through. Since
 * Linux 6.5 the lower file that an overlay opens has that mount in its path,
 * and no other file has (backing_file_open).
 */
static __noinline int by_mount(struct ovl_fs *ofs, struct vfsmount___heat *mnt)
{
	struct search s = {.ofs = ofs, .mnt = mnt};
	struct heat_key key = {};
	int slot;

	bpf_loop(layers_of(ofs), is_mount, &s, 0);
	if (!s.found)
		return UNTRACKED;
	key_of(BPF_CORE_READ(mnt, mnt_root), &key);
	slot = enter(&key);
	return slot < 0 ? LOST : slot;
}

static int enter_one(u32 i, struct search *s)
{
	struct vfsmount___heat *mnt;
	struct heat_key key = {};

	if (!i)
		return 0;
	mnt = mount_of(s->ofs, i);
	key_of(BPF_CORE_READ(mnt, mnt_root), &key);
	s->found |= enter(&key) < 0;
	return 0;
}

/* enter_all gives slots to all layers of an overlay; 1 if one found no slot. */
static __noinline int enter_all(struct ovl_fs *ofs)
{
	struct search s = {.ofs = ofs};

	bpf_loop(layers_of(ofs), enter_one, &s, 0);
	return s.found;
}

static int is_root(u32 i, struct search *s)
{
	struct vfsmount___heat *mnt;

	if (!i)
		return 0;
	mnt = mount_of(s->ofs, i);
	if (BPF_CORE_READ(mnt, mnt_root) != s->dentry)
		return 0;
	s->found = 1;
	return 1;
}

static __noinline int is_root_in(struct ovl_fs *ofs, struct dentry___heat *dentry)
{
	struct search s = {.ofs = ofs, .dentry = dentry};

	bpf_loop(layers_of(ofs), is_root, &s, 0);
	return s.found;
}

/* alias_of returns a name of the inode; which one does not matter for its layer. */
static __always_inline struct dentry___heat *alias_of(struct inode___heat *inode)
{
	struct hlist_node *first = BPF_CORE_READ(inode, i_dentry.first);

	if (!first)
		return 0;
	return (void *)first - bpf_core_field_offset(struct dentry___heat, d_u.d_alias);
}

static int step_up(u32 i, struct search *s)
{
	/* A local copy: otherwise CO-RE would relocate struct search, too. */
	struct dentry___heat *d = s->dentry, *parent;
	struct heat_key key = {};
	u32 *slot;

	key_of(d, &key);
	slot = bpf_map_lookup_elem(&heat_layers, &key);
	if (slot) {
		s->found = is_root_in(s->ofs, d) ? *slot : UNTRACKED;
		return 1;
	}
	parent = BPF_CORE_READ(d, d_parent);
	if (parent == d) {
		s->found = UNTRACKED;
		return 1;
	}
	s->dentry = parent;
	return 0;
}

/*
 * by_walk goes up from a file to the root of a known layer, and checks whether
 * that layer is one of this overlay's. A file of a lower layer has been looked
 * up through its directories, so all of them are there.
 */
static __noinline int by_walk(struct ovl_fs *ofs, struct inode___heat *inode)
{
	struct search s = {.ofs = ofs, .dentry = alias_of(inode), .found = LOST};

	if (s.dentry)
		bpf_loop(MAX_DEPTH, step_up, &s, 0);
	return s.found;
}

/*
 * enter_rest gives slots also to the layers of an overlay of which nothing is
 * read. That distinguishes them from layers that no recorded container has. If
 * the topmost layer has a slot, this was done before.
 */
static __noinline int enter_rest(struct ovl_fs *ofs)
{
	struct heat_key key = {};

	key_of(BPF_CORE_READ(mount_of(ofs, 1), mnt_root), &key);
	if (!bpf_map_lookup_elem(&heat_layers, &key))
		enter_all(ofs);
	return 0;
}

static __always_inline int in_overlay(struct super_block___heat *root, struct inode___heat *inode,
				      struct vfsmount___heat *mnt)
{
	struct ovl_fs *ofs = BPF_CORE_READ(root, s_fs_info);
	struct heat_counters *n;
	int slot;

	slot = mnt ? by_mount(ofs, mnt) : by_walk(ofs, inode);
	if (slot >= 0)
		enter_rest(ofs);
	if (mnt || slot >= 0)
		return slot;
	if (slot == UNTRACKED && !enter_all(ofs))
		slot = by_walk(ofs, inode);
	n = counts();
	if (n && slot == LOST)
		add_one(&n->unreadable);
	return slot;
}

/* size_of returns a file's size in whole blocks, as du counts a file without holes. */
static __always_inline u64 size_of(struct inode___heat *inode)
{
	u64 block = (u64)1 << (BPF_CORE_READ(inode, i_blkbits) & 31);

	return (BPF_CORE_READ(inode, i_size) + block - 1) & ~(block - 1);
}

static __noinline int first_touch(u64 hash, int slot, struct inode___heat *inode, u64 mark)
{
	struct heat_counters *n = counts();
	struct heat_layer *l;
	u32 at = slot;

	if (!n)
		return 0;
	if (slot < 0) {
		__sync_fetch_and_add(&n->untracked, slot == UNTRACKED);
		note_untracked(mark);
		return 0;
	}
	l = bpf_map_lookup_elem(&heat_slots, &at);
	if (!l)
		return 0;
	switch (remember(hash, at)) {
	case INSERTED:
		add_one(&n->touched);
		__sync_fetch_and_add(&l->files, 1);
		__sync_fetch_and_add(&l->bytes, size_of(inode));
		break;
	case FULL:
		add_one(&n->files_full);
		__sync_fetch_and_add(&l->lost, 1);
		note_untracked(mark); /* or the slow path would run at each touch */
	}
	return 0;
}

/*
 * own_root returns the superblock of the current process's root, if that is an
 * overlayfs.
 */
static __always_inline struct super_block___heat *own_root(void)
{
	struct task_struct___heat *task = (void *)bpf_get_current_task_btf();
	struct super_block___heat *sb = task->fs->root.dentry->d_sb;

	return sb->s_magic == OVERLAYFS_SUPER_MAGIC ? sb : 0;
}

/*
 * heat_touch counts a file, if it was not counted before. mnt is the mount it
 * was opened through, 0 if that is not known.
 */
static __always_inline int heat_touch(struct super_block___heat *root, struct inode___heat *inode,
				      struct vfsmount___heat *mnt, const bool traced)
{
	struct super_block___heat *sb;
	u64 hash, mark;

	if ((FIELD(inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	sb = FIELD(inode, i_sb);
	if (sb == root)
		return 0; /* the overlay's own file; the one below it counts */
	hash = hash_of(filesystem_of(sb, traced), FIELD(inode, i_ino), FIELD(inode, i_generation));
	if (seen(hash))
		return 0;
	mark = untracked_mark(hash, root);
	if (is_untracked(mark))
		return 0;
	return first_touch(hash, in_overlay(root, inode, mnt), inode, mark);
}

#endif
