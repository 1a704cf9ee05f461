/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef EBB_DROPS_H
#define EBB_DROPS_H

#include "owners.h"

/*
 * The cgroup that last dropped a reference to an extent, until the extent is
 * freed. Thousands of small files can be deleted before that. This is a hash
 * table without chains, because it takes a fourth of the memory of a hash map.
 * A key is in one of PROBES places, starting at that of its hash, or has found
 * no room.
 *
 * References are added and dropped under the lock of the filesystem's delayed
 * references. The tracepoint for the end of the work on an extent fires after
 * it, without the lock. Another reference can have been dropped before that,
 * and its note must be kept. So a note that is done with stays until its place
 * is needed.
 */
#define DROPS 16384
#define DROPS_BITS 14
#define PROBES 8
#define DONE_WITH 1ULL

struct drop {
	u64 extent; /* its lowest bit is DONE_WITH; 0: free */
	u64 to;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, DROPS);
	__type(key, u32);
	__type(value, struct drop);
} drops SEC(".maps");

static __always_inline struct drop *drop_at(u64 extent, u32 probe)
{
	u32 i = ((extent * GOLDEN >> (64 - DROPS_BITS)) + probe) & (DROPS - 1);

	return bpf_map_lookup_elem(&drops, &i);
}

static __noinline struct drop *find_drop(u64 extent)
{
	struct drop *d;
	u32 i;

	for (i = 0; i < PROBES; i++) {
		d = drop_at(extent, i);
		if (d && (d->extent & ~DONE_WITH) == extent)
			return d;
	}
	return 0;
}

/* claim takes a place that is free, or whose note is done with. */
static __always_inline bool claim(struct drop *d, u64 extent)
{
	u64 old = d->extent;

	return (!old || old & DONE_WITH) && __sync_val_compare_and_swap(&d->extent, old, extent) == old;
}

static __noinline int put_drop(u64 extent, u64 to)
{
	struct drop *d = find_drop(extent);
	struct writers_counters *n;
	u32 i;

	for (i = 0; !d && i < PROBES; i++) {
		d = drop_at(extent, i);
		if (d && !claim(d, extent))
			d = 0;
	}
	if (d) {
		d->to = to;
		d->extent = extent; /* an earlier note of it can be marked DONE_WITH */
		return 0;
	}
	n = counts();
	if (n)
		add_one(&n->lost);
	return 0;
}

static __always_inline void done_with(u64 extent)
{
	struct drop *d = find_drop(extent);

	if (d)
		__sync_val_compare_and_swap(&d->extent, extent, extent | DONE_WITH);
}

#endif
