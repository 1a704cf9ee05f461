/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Reads a percpu_counter exactly, from a program. Needs usage_counts, the
 * per-CPU array of watermark.h.
 */
#ifndef EBB_PERCPU_H
#define EBB_PERCPU_H

#include "watermark.h"

#define MAX_CPUS 1024
#define SUM_TRIES 4

/* Set by the loader. */
volatile const u32 nr_cpus = 1;
volatile const u32 counter_batch = 32; /* percpu_counter_batch, or more */

/* How far each CPU's copy of a per-CPU variable is from its per-CPU address. */
struct cpu_offsets {
	u64 known;
	u64 offset[MAX_CPUS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu_offsets);
} cpu_offsets SEC(".maps");

/*
 * usage_cpu_offsets learns the per-CPU offsets. The kernel's own table is a
 * data symbol, which not every kernel lists. But a per-CPU array map knows both
 * sides: pptrs[0] is the per-CPU address of its first value, and looking that
 * value up on a CPU gives the address there. User space runs this once, before
 * the other programs are attached.
 *
 * The verifier forbids arithmetic on either pointer, so both go through the
 * stack to become plain numbers.
 */
SEC("raw_tp")
int usage_cpu_offsets(void *ctx)
{
	void *map = &usage_counts, *here;
	u64 array, base, addr;
	struct cpu_offsets *o;
	u32 zero = 0, cpu;

	o = bpf_map_lookup_elem(&cpu_offsets, &zero);
	if (!o)
		return 0;
	if (bpf_probe_read_kernel(&array, sizeof(array), &map))
		return 0;
	array += bpf_core_field_offset(struct bpf_array, pptrs);
	if (bpf_probe_read_kernel(&base, sizeof(base), (void *)array) || !base)
		return 0;
	for (cpu = 0; cpu < MAX_CPUS && cpu < nr_cpus; cpu++) {
		here = bpf_map_lookup_percpu_elem(&usage_counts, &zero, cpu);
		if (!here)
			return 0;
		if (bpf_probe_read_kernel(&addr, sizeof(addr), &here))
			return 0;
		o->offset[cpu] = addr - base;
	}
	o->known = 1;
	return 1;
}

static __always_inline s64 approximate(struct percpu_counter *c)
{
	return BPF_CORE_READ(c, count);
}

/*
 * exact sums a counter over all CPUs as percpu_counter_sum() does, but without
 * its lock. A CPU that folds its share into count takes the lock, changes
 * count, clears its share, unlocks (percpu_counter_add_batch). So if the lock
 * was free and count is the same before and after, no share was folded or
 * about to be while the shares were read.
 */
static __noinline int exact(struct percpu_counter *c, s64 *sum)
{
	struct cpu_offsets *o;
	u32 zero = 0, cpu, locked;
	s32 *shares, share;
	s64 before, total;
	long unread = 0;
	int try;

	/* No branch in the inner loop: the verifier walks it for every CPU. */
	o = bpf_map_lookup_elem(&cpu_offsets, &zero);
	if (!o || !o->known)
		return 0;
	for (try = 0; try < SUM_TRIES; try++) {
		before = total = approximate(c);
		/* The lock's first word, whichever kind of spinlock it is. */
		if (bpf_probe_read_kernel(&locked, sizeof(locked), &c->lock))
			return 0;
		shares = BPF_CORE_READ(c, counters);
		for (cpu = 0; cpu < MAX_CPUS && cpu < nr_cpus; cpu++) {
			unread |= bpf_probe_read_kernel(&share, sizeof(share),
							(void *)shares + o->offset[cpu]);
			total += share;
		}
		if (unread)
			return 0;
		if (!locked && approximate(c) == before) {
			*sum = total;
			return 1;
		}
	}
	return 0;
}

/*
 * settle ends look(): it takes the sum if there is one, else the lower bound.
 * An event early rather than late.
 */
static __always_inline void settle(struct reading *r, int ok, s64 sum)
{
	struct usage_counters *n = counts();
	s64 free = ok ? sum : r->free - r->err;

	if (n) {
		add_one(&n->summed);
		__sync_fetch_and_add(&n->approximate, !ok);
	}
	r->free = free > 0 ? free : 0;
	r->err = 0;
}

#endif
