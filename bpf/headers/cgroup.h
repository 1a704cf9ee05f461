/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The types from a process to its cgroup and to the names above it. CO-RE
 * ignores the endings after three underscores when it matches types. They let a
 * program see other fields of a type than kernel.h names, or older ones.
 */
#ifndef EBB_CGROUP_H
#define EBB_CGROUP_H

#include "kernel.h"

struct kernfs_node {
	struct kernfs_node *__parent;
	const char *name;
	u64 id;
} CORE;

/* Before Linux 6.15. */
struct kernfs_node___old {
	struct kernfs_node *parent;
} CORE;

struct cgroup_root {
	int hierarchy_id; /* 0: the v2 hierarchy */
} CORE;

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
} CORE;

struct css_set {
	struct cgroup *dfl_cgrp; /* of the v2 hierarchy */
} CORE;

struct task_struct___cgroups {
	struct css_set *cgroups;
} CORE;

struct super_block___blocks {
	u32 s_dev;
	__u8 s_blocksize_bits;
	void *s_fs_info;
} CORE;

struct inode___mode {
	__u16 i_mode;
	u8 i_blkbits;
	struct super_block___blocks *i_sb;
} CORE;

#endif
