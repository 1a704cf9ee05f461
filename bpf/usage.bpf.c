//go:build ignore
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The edge-triggered line: one event when a watched ext4 filesystem runs as
 * low on free blocks or inodes as user space asked to be told about.
 *
 * Each allocation compares the filesystem's own counters with the line, so
 * nothing is counted here and nothing can drift. The figure is the one that
 * statfs(2) shows (ext4_statfs): free clusters less those promised to delayed
 * allocation.
 */
#include "headers/kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

/* fs/ext4/ext4.h: the blocks were claimed by ext4_da_reserve_space before. */
#define EXT4_MB_DELALLOC_RESERVED 0x0400

#define MAX_CPUS 1024
#define SUM_TRIES 4

enum resource {
	RESOURCE_BYTES,
	RESOURCE_INODES,
};

/* Set by the loader. */
volatile const u32 nr_cpus = 1;
volatile const u32 counter_batch = 32; /* percpu_counter_batch, or more */
volatile const bool reserve_has_count = false;

/* Free blocks or inodes, as statfs counts them. raise 0: no line. */
struct line {
	u64 raise; /* an event at or below this */
	u64 rearm; /* and none again until free was above this */
	u64 worse; /* but, while not armed, one at or below this; 0: none */
	u64 armed;
};

struct watch {
	struct line bytes;
	struct line inodes;
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
	u64 checked;	 /* allocations on a watched filesystem */
	u64 summed;	 /* of those, near the line: summed over all CPUs */
	u64 approximate; /* of those, could not be summed: the cautious bound was taken */
	u64 raised;	 /* events sent */
	u64 rearmed;	 /* lines armed again by the kernel */
	u64 ring_full;	 /* events that found no room; the line stays armed */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, u64);
	__type(value, struct watch);
} watches SEC(".maps");

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

static __always_inline struct usage_counters *counts(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&usage_counts, &zero);
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

/* What is free, true to within err either way, and what was taken just now. */
struct reading {
	s64 free;
	s64 err;
	s64 own;
};

/*
 * glance costs two loads. Each CPU keeps back less than a batch of every
 * counter; free blocks are the difference of two counters.
 */
static __always_inline void glance(struct ext4_sb_info *sbi, u32 resource, struct reading *r)
{
	r->err = (s64)counter_batch * nr_cpus;
	if (resource == RESOURCE_INODES) {
		r->free = approximate(&sbi->s_freeinodes_counter);
		return;
	}
	u32 shift = BPF_CORE_READ(sbi, s_cluster_bits) & 31;

	r->free = (approximate(&sbi->s_freeclusters_counter) -
		   approximate(&sbi->s_dirtyclusters_counter)) << shift;
	r->err = (2 * r->err) << shift;
	r->own <<= shift;
}

/*
 * look makes the reading exact, as statfs would give it now. Where that cannot
 * be had, the lower bound stands: an event early rather than late.
 */
static __noinline int look(struct ext4_sb_info *sbi, u32 resource, struct reading *r)
{
	struct usage_counters *n = counts();
	s64 free = 0, promised = 0;
	int ok;

	if (resource == RESOURCE_INODES) {
		ok = exact(&sbi->s_freeinodes_counter, &free);
	} else {
		ok = exact(&sbi->s_freeclusters_counter, &free) &&
		     exact(&sbi->s_dirtyclusters_counter, &promised);
		free = (free - promised) << (BPF_CORE_READ(sbi, s_cluster_bits) & 31);
	}
	if (n)
		n->summed++;
	if (!ok) {
		free = r->free - r->err;
		if (n)
			n->approximate++;
	}
	r->free = free > 0 ? free : 0;
	r->err = 0;
	return 0;
}

/*
 * rearm arms a disarmed line whose filesystem had more than rearm free before
 * this allocation took its own. Frees need no hook: the next allocation comes by
 * here, in time for itself.
 */
static __always_inline bool rearm(struct ext4_sb_info *sbi, struct line *l, u32 resource,
				  struct reading *r)
{
	s64 line = (s64)l->rearm - r->own;
	struct usage_counters *n;

	if (r->free + r->err <= line)
		return false;
	if (r->free - r->err <= line) {
		look(sbi, resource, r);
		if (r->free <= line)
			return false;
	}
	if (__sync_val_compare_and_swap(&l->armed, 0, 1) == 0) {
		n = counts();
		if (n)
			n->rearmed++;
	}
	return true;
}

static __noinline bool send(u32 dev, u32 resource, u64 free)
{
	struct usage_counters *n = counts();
	struct crossing *c;

	if (!n)
		return false;
	c = bpf_ringbuf_reserve(&crossings, sizeof(*c), 0);
	if (!c) {
		n->ring_full++;
		return false;
	}
	c->dev = dev;
	c->boot_ns = bpf_ktime_get_boot_ns();
	c->free = free;
	c->resource = resource;
	c->pad = 0;
	bpf_ringbuf_submit(c, 0);
	n->raised++;
	return true;
}

/*
 * raise sends the event, unless another CPU was first. If there was no room
 * for it nobody was told, and the next allocation has to try again.
 */
static __always_inline int raise(struct line *l, u32 dev, u32 resource, u64 free)
{
	if (__sync_val_compare_and_swap(&l->armed, 1, 0) == 1 && !send(dev, resource, free))
		l->armed = 1;
	return 0;
}

/*
 * worse sends one more event for a line that was reached before, when free has
 * come down to a second figure: what could not be helped then may be now.
 */
static __always_inline int worse(struct ext4_sb_info *sbi, struct line *l, u32 dev, u32 resource,
				 struct reading *r)
{
	u64 at = l->worse;

	if (!at || r->free - r->err > (s64)at)
		return 0;
	if (r->err)
		look(sbi, resource, r);
	if (r->free > (s64)at)
		return 0;
	if (__sync_val_compare_and_swap(&l->worse, at, 0) == at && !send(dev, resource, r->free))
		l->worse = at;
	return 0;
}

/* check is called after an allocation has taken own blocks or inodes. */
static __always_inline int check(struct super_block *sb, u32 resource, u32 own)
{
	struct usage_counters *n = counts();
	u64 dev = sb->s_dev;
	struct watch *w = bpf_map_lookup_elem(&watches, &dev);
	struct ext4_sb_info *sbi;
	struct reading r = {.own = own};
	struct line *l;

	if (!w || !n)
		return 0;
	l = resource == RESOURCE_INODES ? &w->inodes : &w->bytes;
	if (!l->raise)
		return 0;
	n->checked++;
	sbi = sb->s_fs_info;
	glance(sbi, resource, &r);
	if (!l->armed && !rearm(sbi, l, resource, &r))
		return worse(sbi, l, dev, resource, &r);
	if (r.free - r.err > (s64)l->raise)
		return 0;
	if (r.err) {
		look(sbi, resource, &r);
		if (r.free > (s64)l->raise)
			return 0;
	}
	return raise(l, dev, resource, r.free);
}

/*
 * Buffered writes promise blocks here, long before they are allocated; the
 * promise has been counted by the time of the tracepoint. The argument for how
 * many is missing on kernels that reserve one cluster at a time; reading it
 * there would be refused, so the read must not be moved out of the branch.
 */
SEC("tp_btf/ext4_da_reserve_space")
int usage_reserve(unsigned long long *ctx)
{
	struct inode *inode = (void *)ctx[0];
	u32 own = 1;

	if (reserve_has_count)
		own = *(volatile u64 *)&ctx[1];
	return check(inode->i_sb, RESOURCE_BYTES, own);
}

/*
 * Everything else: direct writes, fallocate, directories, extent trees
 * (ext4_mb_new_blocks; counted before the tracepoint). Blocks that were
 * promised have been checked then. They are skipped for a second reason: their
 * promise is taken back only after this tracepoint
 * (ext4_da_update_reserve_space), so for a moment they count twice.
 */
SEC("tp_btf/ext4_allocate_blocks")
int BPF_PROG(usage_allocate, struct ext4_allocation_request *ar)
{
	if (ar->flags & EXT4_MB_DELALLOC_RESERVED)
		return 0;
	return check(ar->inode->i_sb, RESOURCE_BYTES, ar->len);
}

/* __ext4_new_inode: at its end, after the counter was decremented. */
SEC("tp_btf/ext4_allocate_inode")
int BPF_PROG(usage_inode, struct inode *inode)
{
	return check(inode->i_sb, RESOURCE_INODES, 1);
}
