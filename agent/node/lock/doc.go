// Package lock keeps a node to one agent at a time. Two agents would each remove what is
// needed, measure what the other one removes, and restore each other's withdrawn images.
//
// # What is promised
//
// Of all ebb processes that use the same path, only one holds the lock. The kernel
// releases the lock when its holder dies, however that happens: a kill -9, an
// out-of-memory kill or a crash of the container leave nothing to clean up. The lock is a
// flock on a file that only root can open. The file may stay; its existence means nothing.
//
// The file has one line of JSON about the holder. A process that is refused names that
// holder in its error. The line is for people: no decision depends on it. It may be missing
// (a full disk) or be that of an earlier holder (the new one has just begun). So the PID
// comes from the kernel (/proc/locks) if possible. The content of the file is bounded and
// escaped before it is printed.
//
// # Who owns what
//
// The file belongs to its holder. Other processes open it to ask, and hold a shared lock
// for that moment. That is why [Acquire] does not give up at the first refusal.
//
// # Failure modes
//
// If no file can be made in the directory (read-only, missing rights), the error names the
// path: an agent that cannot know whether it is alone does not start. If the file is
// unlinked while a process waits for it, the process notices, and takes the new file. An
// agent that runs with another path is not seen. Its kernel programs and its state file
// have locks of their own, which are the second net (the state file from its first start on).
//
// # Sources
//
// flock(2); proc_locks(5): the PID there is that of the reader's PID namespace;
// fs/locks.c. PROC_PID_INIT_INO in include/linux/proc_ns.h.
package lock
