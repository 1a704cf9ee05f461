// Package growth says when a filesystem will be full, from readings of it.
//
// A [Rate] is fed with readings, whenever somebody happens to take one, and gives
// the speed at which writers fill the filesystem: a mean in which growth counts the
// less the longer ago it was, by half after 3.5 minutes ([Window] is its time
// constant). The mean is over time, not over readings: it does not matter how
// often, how regularly or by how many readers they are taken, so that nobody has
// to read for its sake.
//
// # What counts
//
// What writers add, less what they delete themselves: a log that is rotated does not
// fill a disk. What ebb removes is added back ([Reading].Reclaimed). A disk that is
// kept low by removals is being filled all the same, and would be full at that time
// if there were nothing left to remove.
//
// # Invariants
//
//   - Steady growth gives exactly that rate, from the first time that it is known.
//   - A reading in between changes nothing about the past; one that comes late, or
//     twice, is left out. Time is the caller's, and must be one that nobody can set.
//   - A filesystem of another size is another filesystem: everything begins anew.
//   - No answer is NaN, and none is negative.
//
// The owner of a Rate calls it from one goroutine at a time.
package growth
