/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Identifies a filesystem that holds layers: by its device number or, on erofs,
 * by its UUID. There a layer is a filesystem of its own, which is mounted and
 * unmounted with containers.
 */
#ifndef EBB_FILESYSTEM_H
#define EBB_FILESYSTEM_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define EROFS_SUPER_MAGIC_V1 0xe0f5e1e2

static __always_inline u64 filesystem_id(u32 dev, unsigned long magic, void *uuid)
{
	u64 half[2];

	if (magic != EROFS_SUPER_MAGIC_V1)
		return dev;
	if (bpf_probe_read_kernel(half, sizeof(half), uuid) || !(half[0] | half[1]))
		return dev; /* no UUID */
	return (half[0] ^ half[1]) | (u64)1 << 63;
}

#endif
