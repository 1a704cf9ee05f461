//go:build ignore
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line of a btrfs filesystem. statfs(2) shows growth only when delayed
 * references run, which can be half a minute later. So the figure here is what
 * statfs will show as f_bavail (btrfs_statfs) once all that was promised by now
 * is written:
 *
 *   room in data block groups, less what is used, allocated but not accounted
 *   (bytes_reserved), and promised to writes (bytes_may_use),
 *   + what data block groups can be made of (btrfs_calc_avail_data_space),
 *   or nothing, once there is no room for metadata.
 *
 * It never shows more than statfs then does. It can show less, as long as
 * promises stand that will not be kept: compressed data, tiny files that end up
 * within metadata, and writes over blocks that then need not be copied; and as
 * long as data that was overwritten or deleted has not been given back, which
 * the next commit does. All these are at most what was written since then, so
 * that an early event takes a headroom's worth of writing, and there is none
 * after syncfs(2).
 *
 * btrfs has no limit on inodes.
 */
#include "headers/line.h"

char LICENSE[] SEC("license") = "GPL";

/* include/uapi/linux/btrfs_tree.h */
#define BLOCK_GROUP_METADATA (1ULL << 2)
#define BLOCK_GROUP_RAID1 (1ULL << 4)
#define BLOCK_GROUP_DUP (1ULL << 5)
#define BLOCK_GROUP_RAID10 (1ULL << 6)
#define BLOCK_GROUP_RAID1C3 (1ULL << 9)
#define BLOCK_GROUP_RAID1C4 (1ULL << 10)
#define MIRRORED (BLOCK_GROUP_RAID1 | BLOCK_GROUP_RAID10 | BLOCK_GROUP_RAID1C3 | BLOCK_GROUP_RAID1C4)

#define STRIPE 65536		  /* BTRFS_STRIPE_LEN */
#define DEVICE_RESERVED (1 << 20) /* BTRFS_DEVICE_RANGE_RESERVED */
#define METADATA_LEAST (4 << 20)  /* thresh in btrfs_statfs */
#define MAX_DEVICES 16

/* The figure as it was last computed, by device; user space makes the entries. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, u64);
	__type(value, u64);
} counted SEC(".maps");

/* Readings are exact. */
static __noinline int look(void *fs, u32 resource, struct reading *r)
{
	return 0;
}

/* copies is how many bytes on disk one byte of data takes. */
static __always_inline u32 copies(u64 profile)
{
	if (profile & BLOCK_GROUP_RAID1C4)
		return 4;
	if (profile & BLOCK_GROUP_RAID1C3)
		return 3;
	if (profile & (BLOCK_GROUP_DUP | BLOCK_GROUP_RAID1 | BLOCK_GROUP_RAID10))
		return 2;
	return 1;
}

/*
 * unallocated is btrfs_calc_avail_data_space, on disk. Mirrors want several
 * devices: what the largest has beyond the others is of no use. That is exact
 * for two copies, and for RAID10, whose groups of four are not looked at, and
 * more than two copies on devices of unlike free space it is an upper bound.
 */
static __noinline u64 unallocated(struct btrfs_fs_info *fs, u64 profile)
{
	struct btrfs_fs_devices *all = BPF_CORE_READ(fs, fs_devices);
	void *head = (void *)all + bpf_core_field_offset(struct btrfs_fs_devices, devices);
	struct list_head *at = BPF_CORE_READ(all, devices.next);
	u64 sum = 0, largest = 0, others, free;
	struct btrfs_device *dev;
	u32 n = copies(profile);
	int i;

	for (i = 0; i < MAX_DEVICES && at && at != head; i++) {
		dev = (void *)at - bpf_core_field_offset(struct btrfs_device, dev_list);
		at = BPF_CORE_READ(at, next);
		if (!BPF_CORE_READ(dev, bdev))
			continue;
		free = BPF_CORE_READ(dev, total_bytes) - BPF_CORE_READ(dev, bytes_used);
		free -= free % STRIPE;
		if ((s64)free <= DEVICE_RESERVED + STRIPE)
			continue;
		free -= DEVICE_RESERVED;
		sum += free;
		if (free > largest)
			largest = free;
	}
	if (!(profile & MIRRORED))
		return sum;
	others = (sum - largest) * n / (n - 1);
	return others < sum ? others : sum;
}

/* metadata_full: no block group can be added, and what there is is spoken for. */
static __always_inline bool metadata_full(struct btrfs_fs_info *fs)
{
	struct btrfs_space_info *m = BPF_CORE_READ(fs, global_block_rsv.space_info);
	u64 free, wanted = BPF_CORE_READ(fs, global_block_rsv.size) + METADATA_LEAST;

	if (m == BPF_CORE_READ(fs, data_sinfo) || !BPF_CORE_READ_BITFIELD_PROBED(m, full))
		return false;
	free = BPF_CORE_READ(m, disk_total) - BPF_CORE_READ(m, disk_used);
	return free < wanted;
}

/*
 * available is the figure, in bytes, once change more is promised to data. What
 * is promised becomes reserved, and what is reserved becomes used, in steps that
 * take the second before they give back the first, or do both under the lock of
 * the space_info. Read in this order, nothing that moves meanwhile is overlooked.
 */
static __noinline s64 available(struct btrfs_fs_info *fs, s64 change)
{
	struct btrfs_space_info *d = BPF_CORE_READ(fs, data_sinfo);
	u64 profile = BPF_CORE_READ(fs, avail_data_alloc_bits);
	s64 taken = BPF_CORE_READ(d, bytes_may_use) + change;
	void *none = (void *)d + bpf_core_field_offset(struct btrfs_space_info, ro_bgs);

	taken += BPF_CORE_READ(d, bytes_reserved);
	taken += BPF_CORE_READ(d, bytes_used);
	/* Without a read-only block group these are a few bytes that statfs counts. */
	if (BPF_CORE_READ(d, ro_bgs.next) != none)
		taken += BPF_CORE_READ(d, bytes_readonly);
	if (metadata_full(fs))
		return 0;
	return (s64)BPF_CORE_READ(d, total_bytes) - taken + unallocated(fs, profile) / copies(profile);
}

static __always_inline int check(struct btrfs_fs_info *fs, struct btrfs_space_info *space, s64 change)
{
	u64 dev = BPF_CORE_READ(fs, sb, s_dev);
	struct watch *w = bpf_map_lookup_elem(&watches, &dev);
	struct usage_counters *n = counts();
	struct reading r = {};
	struct line *l;
	u64 *figure;
	u32 bits;

	if (!w || !n)
		return 0;
	l = line_of(w, RESOURCE_BYTES);
	if (!l)
		return 0;
	n->checked++;
	if (space != BPF_CORE_READ(fs, data_sinfo))
		change = 0;
	bits = BPF_CORE_READ(fs, sectorsize_bits) & 31;
	r.free = available(fs, change);
	if (r.free < 0)
		r.free = 0;
	r.free >>= bits;
	r.own = change > 0 ? change >> bits : 0;
	figure = bpf_map_lookup_elem(&counted, &dev);
	if (figure)
		*figure = r.free;
	return check_line(fs, l, dev, RESOURCE_BYTES, &r);
}

/*
 * Everything that takes space is promised it first (btrfs_reserve_data_bytes),
 * and what is then allocated is taken off the promise (btrfs_add_reserved_bytes).
 * This comes just before the promise changes, with the lock on it. Promises of
 * metadata are looked at for the block group that had to be made for them.
 */
SEC("tp_btf/update_bytes_may_use")
int BPF_PROG(usage_promise, struct btrfs_fs_info *fs, struct btrfs_space_info *space, u64 old, s64 change)
{
	return fs ? check(fs, space, change) : 0;
}

/* The end of a commit: what was deleted is given back, what was late is in. */
SEC("tp_btf/btrfs_transaction_commit")
int BPF_PROG(usage_commit, struct btrfs_fs_info *fs)
{
	return fs ? check(fs, 0, 0) : 0;
}
