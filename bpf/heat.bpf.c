//go:build ignore
/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Layer heat, in tiers: the loader attaches the best one that the kernel allows.
 *
 *	1 heat_open		fentry on security_file_open
 *	2 heat_open_kprobe	kprobe on the same
 *	3 heat_map, heat_fault	tracepoints of the page cache, Linux 6.12
 *	+ heat_read		the same for read(2), only if asked for: it runs at
 *				each read of every filesystem of the node
 *
 * An open of a file in an overlay passes security_file_open twice: with the
 * overlay's inode, then with that of the layer below (ovl_open, do_dentry_open).
 */
#include "headers/heat.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline int opened(struct file___heat *file, const bool traced)
{
	struct super_block___heat *root = own_root(), *sb;
	struct vfsmount___heat *mnt = 0;
	struct dentry___heat *dentry;

	if (!root)
		return 0;
	/*
	 * Before Linux 6.5 the lower file that an overlay opens bears the
	 * overlay's path (open_with_fake_path), and is recognized by that.
	 * Since 6.5 it bears the lower path, through a mount that only this
	 * overlay uses.
	 */
	dentry = FIELD(file, f_path.dentry);
	sb = FIELD(dentry, d_sb);
	if (sb != root)
		mnt = FIELD(file, f_path.mnt);
	return heat_touch(root, FIELD(file, f_inode), mnt, traced);
}

SEC("fentry/security_file_open")
int BPF_PROG(heat_open, struct file___heat *file)
{
	return opened(file, true);
}

/* The register of the first argument, on each architecture. */
struct pt_regs___x86 {
	unsigned long di;
} CORE;

struct pt_regs___arm64 {
	u64 regs[31];
} CORE;

SEC("kprobe/security_file_open")
int heat_open_kprobe(void *ctx)
{
	struct pt_regs___arm64 *arm64 = ctx;
	struct pt_regs___x86 *x86 = ctx;
	struct file___heat *file;

	if (bpf_core_field_exists(x86->di))
		file = (void *)BPF_CORE_READ(x86, di);
	else
		file = (void *)BPF_CORE_READ(arm64, regs[0]);
	return opened(file, false);
}

static __always_inline int paged(struct address_space___heat *mapping)
{
	struct super_block___heat *root = own_root();

	return root ? heat_touch(root, mapping->host, 0, true) : 0;
}

SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(heat_map, struct address_space___heat *mapping)
{
	return paged(mapping);
}

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(heat_fault, struct address_space___heat *mapping)
{
	return paged(mapping);
}

SEC("tp_btf/mm_filemap_get_pages")
int BPF_PROG(heat_read, struct address_space___heat *mapping)
{
	return paged(mapping);
}
