// Package loopfs makes filesystems on loop devices, and allocates space on them in
// every way that Linux has. The tests of package bpf and bench/probes use it.
//
// A filesystem's backing file has no name: it is in memory, or unlinked at once. The
// kernel detaches the loop device with its last user, which is the mount. So a process
// in its own mount namespace leaves nothing behind, however it ends.
package loopfs
