//go:build ignore
/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The watermark of a btrfs filesystem. statfs(2) shows growth only when delayed
 * references run, which can be half a minute later. So the figure here is the
 * f_bavail that statfs will show (btrfs_statfs) once everything promised by now
 * is written:
 *
 *   room in data block groups, less what is used, allocated but not accounted
 *   (bytes_reserved), and promised to writes (bytes_may_use),
 *   + what data block groups can be made of (btrfs_calc_avail_data_space),
 *   or nothing, once there is no room for metadata.
 *
 * It is never more than statfs then shows. It can be less in two cases. First,
 * some promises will not be used: compressed data, tiny files that end up
 * within metadata, and writes over blocks that then need not be copied. Second,
 * overwritten or deleted data is given back only by the next commit. All these
 * are at most what was written since the last commit. So an early event takes a
 * headroom's worth of writing, and there is none after syncfs(2).
 *
 * While a block group is made (create_chunk) its bytes count twice for a
 * moment, for statfs as well: in the group, and not yet taken from the device.
 * A CPU that checks just then can arm a watermark that was reached. The
 * watermark is then reached once more: one event too many, never one too few,
 * because the task for which the group is made checks after that. If the group
 * is made by a worker, which gives out the new room before it has taken it from
 * the device, that task can go on and check first (seen on real-time kernels,
 * where it preempts the worker). statfs shows the same figure then. The event
 * comes as soon as the worker goes on: its transaction gives back metadata,
 * and same_groups() sees the device.
 *
 * btrfs has no limit on inodes.
 */
#include "headers/watermark.h"

char LICENSE[] SEC("license") = "GPL";

/* include/uapi/linux/btrfs_tree.h */
#define BLOCK_GROUP_METADATA (1ULL << 2)
#define BLOCK_GROUP_RAID1 (1ULL << 4)
#define BLOCK_GROUP_DUP (1ULL << 5)
#define BLOCK_GROUP_RAID10 (1ULL << 6)
#define BLOCK_GROUP_RAID5 (1ULL << 7)
#define BLOCK_GROUP_RAID6 (1ULL << 8)
#define BLOCK_GROUP_RAID1C3 (1ULL << 9)
#define BLOCK_GROUP_RAID1C4 (1ULL << 10)

/* Profiles whose blocks need several devices. */
#define OVER_DEVICES                                                                               \
	(BLOCK_GROUP_RAID1 | BLOCK_GROUP_RAID10 | BLOCK_GROUP_RAID5 | BLOCK_GROUP_RAID6 |          \
	 BLOCK_GROUP_RAID1C3 | BLOCK_GROUP_RAID1C4)

#define STRIPE 65536		  /* BTRFS_STRIPE_LEN */
#define DEVICE_RESERVED (1 << 20) /* BTRFS_DEVICE_RANGE_RESERVED */
#define METADATA_LEAST (4 << 20)  /* thresh in btrfs_statfs */
#define MAX_DEVICES 16		  /* a power of two; further ones count as full */

/* The last computed figure, by device. User space makes the entries. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, u64);
	__type(value, u64);
} counted SEC(".maps");

/* Nothing to do: readings are exact already. */
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

/* How a profile spreads over devices: btrfs_raid_array. */
struct spread {
	u32 least;	/* devices it needs */
	u32 stripes;	/* of equal size in one block group */
	u64 min_stripe; /* bytes on a device */
};

static __always_inline struct spread spread_of(u64 profile)
{
	/* RAID0 is striped over all devices: the sum of them, as for single. */
	struct spread s = {.least = 1, .stripes = 1, .min_stripe = STRIPE};

	if (profile & BLOCK_GROUP_DUP)
		s.min_stripe = 2 * STRIPE;
	if (profile & BLOCK_GROUP_RAID10)
		s.stripes = 4;
	else if (!(profile & BLOCK_GROUP_DUP))
		s.stripes = copies(profile);
	if (profile & (BLOCK_GROUP_RAID1 | BLOCK_GROUP_RAID10 | BLOCK_GROUP_RAID5))
		s.least = 2;
	if (profile & (BLOCK_GROUP_RAID1C3 | BLOCK_GROUP_RAID6))
		s.least = 3;
	if (profile & BLOCK_GROUP_RAID1C4)
		s.least = 4;
	return s;
}

/*
 * Room on devices, in descending order. On the stack the verifier would follow
 * every possible order; values from a map are unknown to it. Each program has
 * an entry of its own: programs can preempt each other, but not themselves (see
 * struct account in writers.h).
 */
struct rooms {
	u64 room[MAX_DEVICES];
};

enum rooms_user {
	PROMISE,
	COMMIT,
	ROOMS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, ROOMS);
	__type(key, u32);
	__type(value, struct rooms);
} rooms SEC(".maps");

/*
 * insert puts free into the list of rooms. A function that is not static is
 * verified once, whatever its callers know about its arguments; so it takes
 * numbers. Otherwise the loops below would be walked for each state of their
 * callers.
 */
__noinline int insert(u64 free, u32 me)
{
	struct rooms *r = bpf_map_lookup_elem(&rooms, &me);
	u64 was;
	int i;

	for (i = 0; r && i < MAX_DEVICES; i++) {
		was = r->room[i];
		if (free > was) {
			r->room[i] = free;
			free = was;
		}
	}
	return 0;
}

/*
 * spread_out returns the bytes on disk that block groups can take. It uses up
 * the smallest device with the next larger ones, then the next smallest.
 */
__noinline u64 spread_out(u32 least, u32 alike, u64 min_stripe, u32 me)
{
	struct rooms *r = bpf_map_lookup_elem(&rooms, &me);
	u32 stripes, k;
	u64 sum = 0, free;
	int i;

	for (i = MAX_DEVICES - 1; r && i >= 0; i--) {
		free = r->room[i];
		if (i + 1 < least || free < min_stripe)
			continue;
		stripes = alike < i + 1 ? alike : i + 1;
		sum += free * stripes;
		for (k = 0; k < 4; k++)
			if (k < stripes)
				r->room[(i - k) & (MAX_DEVICES - 1)] -= free;
	}
	return sum;
}

/* on_device returns the bytes that a device has for new block groups. */
static __always_inline u64 on_device(u64 total, u64 used, u64 min_stripe)
{
	s64 free = (total - used) & ~(s64)(STRIPE - 1);

	return free > (s64)(DEVICE_RESERVED + min_stripe) ? free - DEVICE_RESERVED : 0;
}

/* in_list is on_device for the device whose list entry is at that address. */
__noinline u64 in_list(u64 at, u64 min_stripe)
{
	struct btrfs_device *dev = (void *)at - bpf_core_field_offset(struct btrfs_device, dev_list);

	if (!BPF_CORE_READ(dev, bdev))
		return 0;
	return on_device(BPF_CORE_READ(dev, total_bytes), BPF_CORE_READ(dev, bytes_used), min_stripe);
}

/*
 * all_devices computes btrfs_calc_avail_data_space, in bytes on disk, the same
 * way. With devices of unequal room that is not the most that could be
 * allocated, but it is what statfs shows.
 */
__noinline u64 all_devices(u64 devices, u64 profile, u32 me)
{
	u64 head = devices + bpf_core_field_offset(struct btrfs_fs_devices, devices);
	u64 at = (u64)BPF_CORE_READ((struct list_head *)head, next);
	struct spread by = spread_of(profile);
	u64 sum = 0, free;
	struct rooms *r;
	int i;

	r = bpf_map_lookup_elem(&rooms, &me);
	if (!r)
		return 0;
	if (by.least > 1)
		__builtin_memset(r, 0, sizeof(*r));
	for (i = 0; i < MAX_DEVICES && at && at != head; i++) {
		free = in_list(at, by.min_stripe);
		at = (u64)BPF_CORE_READ((struct list_head *)at, next);
		sum += free;
		if (by.least > 1)
			insert(free, me);
	}
	return by.least > 1 ? spread_out(by.least, by.stripes, by.min_stripe, me) : sum;
}

/*
 * only_device returns what the only device of a filesystem has, or NO_SUCH if
 * there are several. Nearly always there is one. Its type is known to the
 * verifier, so reading it takes no call of a helper.
 */
#define NO_SUCH (~0ULL)

/* A device is the whole list if it is the list's first and last. */
static __always_inline bool only(struct btrfs_fs_devices *all, struct btrfs_device *dev)
{
	return all->devices.next == &dev->dev_list && dev->dev_list.next == &all->devices;
}

static __always_inline u64 only_device(struct btrfs_fs_devices *all, u64 min_stripe)
{
	struct btrfs_device *dev;

	if (!bpf_core_field_exists(all->latest_dev))
		return NO_SUCH;
	dev = all->latest_dev;
	if (!only(all, dev))
		return NO_SUCH;
	return dev->bdev ? on_device(dev->total_bytes, dev->bytes_used, min_stripe) : 0;
}

/* unallocated returns what data block groups can be made of, in bytes of data. */
static __noinline u64 unallocated(struct btrfs_fs_info *fs, u64 profile, u32 me)
{
	u64 dup = (profile / BLOCK_GROUP_DUP) & 1, room;

	if (!(profile & OVER_DEVICES)) {
		room = only_device(fs->fs_devices, STRIPE << dup);
		if (room != NO_SUCH)
			return room >> dup;
	}
	return all_devices((u64)BPF_CORE_READ(fs, fs_devices), profile, me) / copies(profile);
}

/*
 * metadata_full reports whether no block group can be added for metadata, and
 * the existing room is taken.
 */
static __always_inline bool metadata_full(struct btrfs_fs_info *fs)
{
	struct btrfs_space_info *m = fs->global_block_rsv.space_info;

	if (m == fs->data_sinfo || !BPF_CORE_READ_BITFIELD(m, full))
		return false;
	return m->disk_total - m->disk_used < fs->global_block_rsv.size + METADATA_LEAST;
}

/*
 * available returns the figure, in bytes, once change more is promised to data.
 * Promised bytes become reserved, and reserved bytes become used. Each step
 * adds to the second counter before it subtracts from the first, or does both
 * under the lock of the space_info. So reading in this order misses no bytes
 * that move during the reading.
 */
static __always_inline s64 available(struct btrfs_fs_info *fs, s64 change, const u32 me)
{
	struct btrfs_space_info *d = fs->data_sinfo;
	u64 profile = fs->avail_data_alloc_bits;
	s64 taken = d->bytes_may_use + change;

	barrier();
	taken += d->bytes_reserved;
	barrier();
	taken += d->bytes_used;
	barrier();
	/* Without a read-only block group these are a few bytes that statfs counts as free. */
	if (d->ro_bgs.next != &d->ro_bgs)
		taken += d->bytes_readonly;
	if (metadata_full(fs))
		return 0;
	return (s64)d->total_bytes - taken + unallocated(fs, profile, me);
}

static __always_inline int check(struct btrfs_fs_info *fs, struct btrfs_space_info *space, s64 change,
				 const u32 me)
{
	u64 dev = fs->sb->s_dev;
	struct watch *w = bpf_map_lookup_elem(&watches, &dev);
	struct usage_counters *n = counts();
	struct reading r = {};
	struct watermark *l;
	u64 *figure;
	u32 bits;

	if (!w || !n)
		return 0;
	l = watermark_of(w, RESOURCE_BYTES);
	if (!l)
		return 0;
	n->checked++;
	if (space != fs->data_sinfo)
		change = 0;
	bits = fs->sectorsize_bits & 31;
	r.free = available(fs, change, me);
	if (r.free < 0)
		r.free = 0;
	r.free >>= bits;
	r.own = change > 0 ? change >> bits : 0;
	figure = bpf_map_lookup_elem(&counted, &dev);
	if (figure)
		*figure = r.free;
	return check_watermark(fs, l, dev, RESOURCE_BYTES, &r);
}

/* The filesystem, and how much was in its block groups at the last promise of metadata. */
static u64 grouped;

/*
 * same_groups reports whether no block group was made since the last promise of
 * metadata. A promise of metadata matters only through the block group that had
 * to be made for it: then the only device has less that is in no group. Each
 * page that is written makes one or two such promises.
 */
static __always_inline bool same_groups(struct btrfs_fs_info *fs)
{
	struct btrfs_fs_devices *all = fs->fs_devices;
	struct btrfs_space_info *m = fs->global_block_rsv.space_info;
	struct btrfs_device *dev;
	u64 now;

	if (!bpf_core_field_exists(all->latest_dev) || BPF_CORE_READ_BITFIELD(m, full))
		return false;
	dev = all->latest_dev;
	if (!only(all, dev))
		return false;
	now = (fs->sb->s_dev * GOLDEN) ^ dev->bytes_used;
	if (now == grouped)
		return true;
	grouped = now;
	return false;
}

/*
 * All space is promised before it is taken (btrfs_reserve_data_bytes). An
 * allocation is then subtracted from the promise (btrfs_add_reserved_bytes).
 * The tracepoint fires just before the promise changes, with the space_info's
 * lock held.
 */
SEC("tp_btf/update_bytes_may_use")
int BPF_PROG(usage_promise, struct btrfs_fs_info *fs, struct btrfs_space_info *space, u64 old, s64 change)
{
	if (!fs || (space != fs->data_sinfo && same_groups(fs)))
		return 0;
	return check(fs, space, change, PROMISE);
}

/* The end of a commit: deleted data has been given back, and late growth is included. */
SEC("tp_btf/btrfs_transaction_commit")
int BPF_PROG(usage_commit, struct btrfs_fs_info *fs)
{
	return fs ? check(fs, 0, 0, COMMIT) : 0;
}

/*
 * What a removal frees is pinned when delayed references run, the latest with the commit
 * of its transaction. From then on statfs shows it as free; others can take it after the
 * commit. Writes over blocks free the old ones, which counts, too.
 */
SEC("tp_btf/update_bytes_pinned")
int BPF_PROG(usage_pin, struct btrfs_fs_info *fs, struct btrfs_space_info *space, u64 old, s64 change)
{
	if (fs && change > 0 && space == fs->data_sinfo)
		give_back(fs->sb->s_dev, change >> (fs->sectorsize_bits & 31));
	return 0;
}
