/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The edge-triggered watermark, the same for every filesystem. It sends one
 * event when free blocks or inodes have fallen to a figure, and another only
 * after they were above a second one. A program that sees an allocation fills a
 * struct reading from the filesystem's own counters and calls
 * check_watermark(). Nothing is counted here, so nothing can drift.
 *
 * The file that includes this defines look(), which makes a reading exact.
 */
#ifndef EBB_WATERMARK_H
#define EBB_WATERMARK_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

enum resource {
	RESOURCE_BYTES,
	RESOURCE_INODES,
	RESOURCE_NEAR, /* of crossings only: see near.h */
};

/* Free blocks or inodes, as statfs counts them. raise 0: no watermark. */
struct watermark {
	u64 raise; /* an event at or below this */
	u64 rearm; /* and none again until free was above this */
	u64 worse; /* but, while not armed, one at or below this; 0: none */
	u64 armed;
};

struct watch {
	struct watermark bytes;
	struct watermark inodes;

	/* For near.h. Less is dirty than the sum of dirtied and dirty_then. */
	u64 near;	/* user space was, or need not be, asked for the near program */
	u64 dirtied;	/* bytes */
	u64 dirty_then; /* bytes, less what was dirtied until then */
};

struct crossing {
	u64 dev;
	u64 boot_ns;
	u64 free;
	u32 resource;
	u32 pad;
};

/* Keeps the type in the object: no map names it. */
const struct crossing *crossing_type __attribute__((unused));

struct usage_counters {
	u64 checked;	 /* allocations on a watched filesystem; inexact since Linux 7.0 */
	u64 summed;	 /* of those, near the watermark: summed over all CPUs */
	u64 approximate; /* of those, could not be summed: the cautious bound was taken */
	u64 raised;	 /* events of watermarks that were reached */
	u64 neared;	 /* events of watermarks that came near (near.h) */
	u64 rearmed;	 /* watermarks armed again by the kernel */
	u64 ring_full;	 /* events that found no room; the watermark stays armed */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, u64);
	__type(value, struct watch);
} watches SEC(".maps");

/* Blocks that any process freed, by device. User space makes the entries. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, u64);
	__type(value, u64);
} given_back SEC(".maps");

static __always_inline void give_back(u64 dev, u64 blocks)
{
	u64 *sum = bpf_map_lookup_elem(&given_back, &dev);

	if (sum)
		__sync_fetch_and_add(sum, blocks);
}

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16384);
} crossings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct usage_counters);
} usage_counts SEC(".maps");

static __always_inline struct usage_counters *counts(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&usage_counts, &zero);
}

/* The free blocks or inodes, exact to within err either way, and those taken just now (own). */
struct reading {
	s64 free;
	s64 err;
	s64 own;
};

static __noinline int look(void *fs, u32 resource, struct reading *r);

/*
 * rearm arms a disarmed watermark whose filesystem had more than rearm free
 * before this allocation took its own. Frees need no hook: the next allocation
 * calls this before it is compared itself.
 */
static __always_inline bool rearm(void *fs, struct watermark *l, u32 resource, struct reading *r)
{
	s64 above = (s64)l->rearm - r->own;
	struct usage_counters *n;

	if (r->free + r->err <= above)
		return false;
	if (r->free - r->err <= above) {
		look(fs, resource, r);
		if (r->free <= above)
			return false;
	}
	if (__sync_val_compare_and_swap(&l->armed, 0, 1) == 0) {
		n = counts();
		if (n)
			add_one(&n->rearmed);
	}
	return true;
}

static __noinline bool send(u64 dev, u32 resource, u64 free)
{
	struct usage_counters *n = counts();
	struct crossing *c;

	if (!n)
		return false;
	c = bpf_ringbuf_reserve(&crossings, sizeof(*c), 0);
	if (!c) {
		add_one(&n->ring_full);
		return false;
	}
	c->dev = dev;
	c->boot_ns = bpf_ktime_get_boot_ns();
	c->free = free;
	c->resource = resource;
	c->pad = 0;
	bpf_ringbuf_submit(c, 0);
	if (resource == RESOURCE_NEAR)
		add_one(&n->neared);
	else
		add_one(&n->raised);
	return true;
}

/*
 * raise sends the event, unless another CPU was first. If there was no room for
 * the event, the watermark is armed again, and the next allocation tries again.
 */
static __always_inline int raise(struct watermark *l, u64 dev, u32 resource, u64 free)
{
	if (__sync_val_compare_and_swap(&l->armed, 1, 0) == 1 && !send(dev, resource, free))
		l->armed = 1;
	return 0;
}

/*
 * worse sends one more event for a watermark that was reached before, when free
 * has fallen to a further figure. User space may be able to do now what it
 * could not do before.
 */
static __always_inline int worse(void *fs, struct watermark *l, u64 dev, u32 resource, struct reading *r)
{
	u64 at = l->worse;

	if (!at || r->free - r->err > (s64)at)
		return 0;
	if (r->err)
		look(fs, resource, r);
	if (r->free > (s64)at)
		return 0;
	if (__sync_val_compare_and_swap(&l->worse, at, 0) == at && !send(dev, resource, r->free))
		l->worse = at;
	return 0;
}

/* watermark_of finds the watermark for a resource of a filesystem, if it has one. */
static __always_inline struct watermark *watermark_of(struct watch *w, u32 resource)
{
	struct watermark *l = resource == RESOURCE_INODES ? &w->inodes : &w->bytes;

	return l->raise ? l : 0;
}

/* check_watermark compares a reading, taken after r->own was taken, with the watermark. */
static __always_inline int check_watermark(void *fs, struct watermark *l, u64 dev, u32 resource,
					   struct reading *r)
{
	if (!l->armed && !rearm(fs, l, resource, r))
		return worse(fs, l, dev, resource, r);
	if (r->free - r->err > (s64)l->raise)
		return 0;
	if (r->err) {
		look(fs, resource, r);
		if (r->free > (s64)l->raise)
			return 0;
	}
	return raise(l, dev, resource, r->free > 0 ? r->free : 0);
}

#endif
