// Package cgroup finds cgroups of the v2 hierarchy: where one is whose id the
// kernel programs know, and which container it belongs to.
//
// A container's cgroup bears its id as a whole element of the path
// ("/kubepods/burstable/pod…/ID", "/k8s.io/ID") or at the end of a systemd scope
// ("cri-containerd-ID.scope"). Containers make groups of their own below it and
// name them as they like, also after somebody else. So a path is read from the
// root down, and the first element that names a container counts. An id that a
// person chose ("t1") can be any word: as a plain element it counts only right
// below an element that names its namespace, which is where containerd puts it.
//
// The package owns one descriptor per [Hierarchy] and changes nothing. Without
// a mounted v2 hierarchy Open returns [ErrNone]; a cgroup that was removed
// meanwhile is fs.ErrNotExist.
//
// Sources: name_to_handle_at(2); fs/kernfs/mount.c (kernfs_fh_to_dentry: the
// handle of a directory is its 64-bit id); containerd, WithNamespaceCgroupDeletion
// and the CRI's getCgroupsPath.
package cgroup
