/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few kernel types the programs look into, and of those only the fields
 * they use. Offsets written here mean nothing: preserve_access_index makes the
 * loader take them from the running kernel's BTF, or from the module's where
 * ext4 and overlayfs are modules (CO-RE).
 */
#ifndef EBB_KERNEL_H
#define EBB_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;

typedef _Bool bool;
enum {
	false = 0,
	true = 1,
};

/* Named by libbpf's helper prototypes; none of those helpers is called. */
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

/* enum bpf_map_type and the update flags of the bpf(2) interface. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
};

#define CORE __attribute__((preserve_access_index))

/* The VFS: from a process to the superblock of its root, and to an inode. */

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
	void *s_fs_info;
} CORE;

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
} CORE;

struct dentry {
	struct inode *d_inode;
	struct super_block *d_sb;
} CORE;

struct vfsmount {
	struct dentry *mnt_root;
} CORE;

struct path {
	struct dentry *dentry;
} CORE;

struct fs_struct {
	struct path root;
} CORE;

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
} CORE;

struct task_struct {
	struct fs_struct *fs;
	struct signal_struct *signal;
} CORE;

/* overlayfs (fs/overlayfs/ovl_entry.h). */

struct ovl_layer {
	struct vfsmount *mnt;
} CORE;

struct ovl_fs {
	unsigned int numlayer;
	struct ovl_layer *layers;
} CORE;

/* ext4 (fs/ext4/ext4.h, mballoc.h) and its counters. */

struct percpu_counter {
	struct {
	} lock;
	s64 count;
	s32 *counters; /* __percpu */
} CORE;

struct ext4_sb_info {
	unsigned int s_cluster_bits;
	struct percpu_counter s_freeclusters_counter;
	struct percpu_counter s_freeinodes_counter;
	struct percpu_counter s_dirtyclusters_counter;
} CORE;

struct ext4_allocation_request {
	struct inode *inode;
	unsigned int len;
	unsigned int flags;
} CORE;

/* A map, as the kernel keeps it (include/linux/bpf.h). */

struct bpf_array {
	void *pptrs[0]; /* __percpu */
} CORE;

#endif
