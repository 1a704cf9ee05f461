// Package growth estimates when a filesystem will be full, from readings of it.
//
// A [Rate] receives readings, taken at any time, and returns the speed at which writers fill
// the filesystem. The speed is an exponentially weighted mean: the weight of growth halves
// every 3.5 minutes ([Window] is the time constant). The mean is over time, not over
// readings. It does not depend on how often, how regularly or by how many readers the
// readings are taken, so no reading is needed for its sake.
//
// # What counts
//
// The rate is what writers add, less what they delete themselves: a rotated log does not fill
// a disk. Space that ebb frees is added back ([Reading].Reclaimed). So a disk that removals
// keep low is still being filled, and the estimate is when it would be full if nothing were
// left to remove.
//
// # Invariants
//
//   - Steady growth gives exactly that rate, from the first time that a rate is known.
//   - An additional reading does not change the past. A reading that arrives late or twice is
//     ignored. The caller supplies the time, from a clock that cannot be set.
//   - A filesystem of another size is another filesystem: the rate starts over.
//   - No result is NaN, and the time to full is never negative.
//
// A Rate is not safe for concurrent use.
package growth
