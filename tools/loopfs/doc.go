// Package loopfs makes filesystems on loop devices and knows every way of
// taking space on one. The tests of package bpf and bench/probes share it.
//
// A filesystem's file has no name: it lies in memory, or is unlinked at once. The
// loop device goes with its last user, which is the mount. So a process in a
// mount namespace of its own leaves nothing behind, however it ends.
package loopfs
