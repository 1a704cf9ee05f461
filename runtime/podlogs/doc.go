// Package podlogs finds and removes the logs of pods: the directories below
// /var/log/pods, and the links to them in /var/log/containers. It finds out whose logs
// they are; whether a pod is gone, the caller has to know.
//
// Any process that may mount these directories can write to them, and what is in the first
// is made in the name of pods. So nothing in there is followed. Each directory is
// opened by openat2(2) relative to the one above it: beneath it, through no link and
// onto no other mount. Each name is removed relative to the directory that was opened.
// If a path is swapped in the meantime, the kernel refuses the call; no earlier check
// is relied on. Kubernetes issue 60987 shows what can happen otherwise. (Linux 5.6.)
//
// A link is removed, never its target. A directory that holds a mount is kept, with the
// directories above it, and everything else in it is removed; the error with [ErrMount]
// names the mount. Removal can be repeated: a missing entry is no error.
//
// The kubelet's names are from pkg/kubelet/kuberuntime/helpers.go
// (BuildPodLogsDirectory, parsePodUIDFromLogsDirectory) and legacy.go
// (getContainerIDFromLegacyLogSymlink), its rules from kuberuntime_gc.go
// (evictPodLogsDirectories).
package podlogs
