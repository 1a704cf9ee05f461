// Package lock keeps a node to one agent at a time. Two of them would each remove
// what is needed, measure what the other does, and look after one another's
// withdrawn images.
//
// # What is promised
//
// Whoever holds the lock is alone, among all who use the same path and are ebb. The
// kernel lets go of it when its holder dies, however that happens: a kill -9, an
// out-of-memory kill or a crash of the container leave nothing that has to be cleared
// away. It is a flock on a file that only root can open; the file may stay, and says
// nothing by being there.
//
// The file has one line of JSON, by which the one who is refused can say who was
// first. That is for people: nothing is decided by it. It may be missing (a full disk)
// or be somebody else's (a holder that has just begun), so that the process's number
// comes from the kernel (/proc/locks) if that tells. Whatever stands in the file is
// bounded and escaped before it is printed.
//
// # Who owns what
//
// The file is its holder's. Others open it to ask, and hold a shared lock for the
// moment of asking; that is why [Acquire] does not give up at the first refusal.
//
// # Failure modes
//
// A directory in which no file can be made (read-only, missing rights) is an error
// that names the path: an agent that cannot know whether it is alone does not start.
// A file that was unlinked while somebody waited for it is noticed, and the new one
// is taken. An agent that runs with another path is not seen; its kernel programs and
// its state file have locks of their own, which is the second net.
//
// # Sources
//
// flock(2); proc_locks(5): the number there is as the reader's PID namespace has it;
// fs/locks.c. PROC_PID_INIT_INO in include/linux/proc_ns.h.
package lock
