// Package cgroup resolves ids of cgroups in the v2 hierarchy, which the kernel programs
// report, to paths, and paths to the containers that they belong to.
//
// A container's cgroup has the container's id as a whole element of the path
// ("/kubepods/burstable/pod…/ID", "/k8s.io/ID") or at the end of a systemd scope
// ("cri-containerd-ID.scope"). A container can make cgroups of its own below that and
// name them as it likes, also after another container. So a path is read from the
// root down, and the first element that names a container counts. An id that a
// person chose ("t1") can be any word: as a plain element it counts only right
// below an element that names its namespace, which is where containerd puts it.
//
// The package owns one descriptor per [Hierarchy] and changes nothing. Without
// a mounted v2 hierarchy Open returns [ErrNone]. For a removed cgroup,
// [Hierarchy.Path] returns fs.ErrNotExist.
//
// Sources: name_to_handle_at(2); fs/kernfs/mount.c (kernfs_fh_to_dentry: the
// handle of a directory is its 64-bit id); containerd, WithNamespaceCgroupDeletion
// and the CRI's getCgroupsPath.
package cgroup
