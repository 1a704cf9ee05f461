//go:build ignore
/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Counts the bytes and inodes that each container took and gave back on the
 * watched filesystems. This object has the maps, which the objects of the
 * filesystems share, and sees cgroups end.
 */
#include "headers/owners.h"

char LICENSE[] SEC("license") = "GPL";

/* Nothing is booked here. */
static __always_inline u32 unit_bits(struct super_block___blocks *sb)
{
	return 0;
}

/*
 * A removed cgroup has no task left. Its counts are kept until user space has
 * read them, together with the path, which cannot be found afterwards.
 */
SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(writers_rmdir, struct cgroup *cgrp, const char *path)
{
	u64 id = cgrp->kn->id;
	struct writer *w;

	if (cgrp->root->hierarchy_id != 0)
		return 0;
	bpf_map_delete_elem(&members, &id);
	w = bpf_map_lookup_elem(&writers, &id);
	if (!w)
		return 0;
	bpf_probe_read_kernel_str(w->path, PATH_SIZE, path);
	w->ended_ns = bpf_ktime_get_boot_ns();
	return 0;
}
