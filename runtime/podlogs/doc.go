// Package podlogs finds and removes the logs of pods: the directories below
// /var/log/pods, and the links to them in /var/log/containers. Whose logs they are
// is all it can tell; whether a pod is gone, its caller has to know.
//
// Both directories can be written to by whoever may mount them, and what is in
// the first is made in the name of pods. So nothing in there is followed: every
// directory is opened by openat2(2) relative to the one above it, beneath it,
// through no link and onto no other mount, and every name is removed relative to
// the directory that was opened. Whatever is put in the way in the meantime is
// refused by the kernel, not by a check that came before. Kubernetes issue 60987 is
// what else can happen. (Linux 5.6.)
//
// A link is removed, never what it points to. A directory that holds a mount
// stays, with the way to it, and everything else in it goes; [ErrMount] says
// where the mount is. Removing can be repeated: what is gone is no error.
//
// The kubelet's names are from pkg/kubelet/kuberuntime/helpers.go
// (BuildPodLogsDirectory, parsePodUIDFromLogsDirectory) and legacy.go
// (getContainerIDFromLegacyLogSymlink), its rules from kuberuntime_gc.go
// (evictPodLogsDirectories).
package podlogs
