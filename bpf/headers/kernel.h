/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The kernel types that the programs read, and of those only the fields they
 * use. Offsets written here mean nothing: preserve_access_index makes the
 * loader take them from the BTF of the running kernel, or of the module if a
 * filesystem is one (CO-RE).
 *
 * If a filesystem is a module, later kernels treat every pointer that its
 * tracepoints pass as one that may be null. They reject a program that follows
 * it without a check (seen on 6.12.117). So programs on ext4, xfs and btrfs
 * check first.
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
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_F_MMAPABLE = 1 << 10, /* user space can mmap the map */
};

#define CORE __attribute__((preserve_access_index))

/*
 * add_one counts in a per-CPU array that several programs share. It is atomic,
 * because one program can preempt another on the same CPU (Linux 7.0).
 */
static inline __attribute__((always_inline)) void add_one(u64 *n)
{
	__sync_fetch_and_add(n, 1);
}

/* The VFS: from a process to the superblock of its root, and to an inode. */

struct backing_dev_info;

struct super_block {
	u32 s_dev;
	unsigned char s_blocksize_bits;
	unsigned long s_magic;
	struct backing_dev_info *s_bdi;
	void *s_fs_info;
} CORE;

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
} CORE;

struct address_space {
	struct inode *host;
} CORE;

/* The order of a large folio is in the low byte of its second page's flags. */
struct folio {
	unsigned long _flags_1;
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

struct list_head {
	struct list_head *next;
} CORE;

/* What is dirty on a device (include/linux/backing-dev-defs.h). */

enum wb_stat_item {
	WB_RECLAIMABLE,
};

struct bdi_writeback {
	struct list_head bdi_node;
	struct percpu_counter stat[4];
} CORE;

struct backing_dev_info {
	struct list_head wb_list;
} CORE;

enum pageflags {
	PG_head = 6,
};

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

/*
 * xfs (fs/xfs/xfs_mount.h, xfs_trans.h). The counter of free blocks is
 * m_free[0] since Linux 6.15, m_fdblocks before: a program checks which one
 * exists.
 */

typedef struct {
	s64 counter;
} atomic64_t;

struct xfs_sb {
	u64 sb_icount;
	u8 sb_inopblog;
} CORE;

struct xfs_ino_geometry {
	u64 maxicount;
} CORE;

struct xfs_freecounter {
	struct percpu_counter count;
} CORE;

struct xfs_mount {
	struct xfs_sb m_sb;
	struct super_block *m_super;
	unsigned int m_alloc_set_aside;
	struct xfs_ino_geometry m_ino_geo;
	struct percpu_counter m_icount;
	struct percpu_counter m_ifree;
	struct percpu_counter m_fdblocks;
	struct xfs_freecounter m_free[3];
	atomic64_t m_allocbt_blks;
} CORE;

struct xfs_trans {
	struct xfs_mount *t_mountp;
	s64 t_fdblocks_delta;
} CORE;

struct xfs_inode {
	struct xfs_mount *i_mount;
} CORE;

/* btrfs (fs/btrfs/fs.h, space-info.h, block-rsv.h, volumes.h). */

struct btrfs_space_info {
	u64 total_bytes;
	u64 bytes_used;
	u64 bytes_reserved;
	u64 bytes_may_use;
	u64 bytes_readonly;
	u64 disk_used;
	u64 disk_total;
	u64 flags;
	bool full; /* a bit of an unsigned int before Linux 6.17 */
	struct list_head ro_bgs;
} CORE;

struct btrfs_block_rsv {
	u64 size;
	struct btrfs_space_info *space_info;
} CORE;

struct btrfs_device {
	struct list_head dev_list;
	void *bdev;
	u64 total_bytes;
	u64 bytes_used;
} CORE;

struct btrfs_fs_devices {
	struct btrfs_device *latest_dev; /* since Linux 5.16 */
	struct list_head devices;
} CORE;

struct btrfs_fs_info {
	struct btrfs_block_rsv global_block_rsv;
	struct super_block *sb;
	struct btrfs_fs_devices *fs_devices;
	struct btrfs_space_info *data_sinfo;
	u64 avail_data_alloc_bits;
	u32 sectorsize_bits;
} CORE;

/* 2^64 over the golden ratio: multiplying by it spreads numbers in a hash. */
#define GOLDEN 0x9E3779B97F4A7C15ULL

/* A map, as the kernel keeps it (include/linux/bpf.h). */

struct bpf_array {
	void *pptrs[0]; /* __percpu */
} CORE;

#endif
