// Package image decides which container images of a node should be removed.
//
// [Decide] is a pure function: one [Snapshot] of the node and a time go in, one [Plan] comes
// out. It reads no clock, does no I/O, keeps nothing and changes nothing it was given; the
// same input, in any order, gives the same plan. The caller owns all state. It passes
// Plan.Hold to the next call in Snapshot.Hold.
//
// # What goes
//
// Images unused for MaximumAge go first, regardless of the disk. If the disk needs more, the
// shortest prefix of the other images follows, least recently used first, that covers the
// need. Decide then spares images of the prefix, newest first, as long as the need is met
// without them.
//
// The space that an image frees is computed from the graph alone. Nominal sizes are wrong in
// both directions: two images with the same layers free nothing one by one, and everything
// together.
//
// If all candidates together cannot reach a low threshold, they all go once, and the plan has
// a [Hold].
//
// # Invariants
//
// An image with any of the Kept reasons up to [KeptYoung] never goes. Doubt makes an image
// younger, never older: an unknown last use counts from the first observation, a time in the
// future as now. If the inventory is inconsistent (an image is listed twice, or a root is
// outside the graph), no affected image is removed.
//
// # Questions
//
// [Ask] plans for a given need, [Why] evaluates all rules for one image, and [Account]
// returns what every image takes and what is unreferenced. They share Decide's protections,
// order and walk over the graph, so that their answers agree.
//
// # Failure modes and sources
//
// Wrong figures in the graph make a plan too long or too short, never unsafe: the caller
// reads the disk after each removal and stops once it is low. Thresholds and order are those
// of the kubelet's image collector (pkg/kubelet/images/image_gc_manager.go), the maximum age
// is KEP-4210, the marking is that of containerd's collector (pkg/gc).
package image
