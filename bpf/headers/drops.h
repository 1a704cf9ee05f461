/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EBB_DROPS_H
#define EBB_DROPS_H

#include "owners.h"

/* Numbers that are multiplied by it stay apart: 2^64 over the golden ratio. */
#define GOLDEN 0x9E3779B97F4A7C15ULL

/*
 * Who dropped a reference to an extent last, until the reference is taken off:
 * thousands of small files can be deleted before that. A hash table without
 * chains, for it takes a fourth of the memory: a key is in one of the PROBES
 * places from that of its hash, or has found no room.
 */
#define DROPS 16384
#define DROPS_BITS 14
#define PROBES 8

struct drop {
	u64 extent; /* 0: free */
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
		if (d && d->extent == extent)
			return d;
	}
	return 0;
}

/* An extent has one reference added or dropped at a time (its head is locked). */
static __noinline int put_drop(u64 extent, u64 to)
{
	struct drop *d = find_drop(extent);
	struct writers_counters *n;
	u32 i;

	for (i = 0; !d && i < PROBES; i++) {
		d = drop_at(extent, i);
		if (d && __sync_val_compare_and_swap(&d->extent, 0, extent))
			d = 0;
	}
	if (d) {
		d->to = to;
		return 0;
	}
	n = counts();
	if (n)
		add_one(&n->lost);
	return 0;
}

#endif
