// Package image decides which container images of a node should be removed.
//
// [Decide] is a pure function: one [Snapshot] of the node and a time go in, one [Plan]
// comes out. It reads no clock, does no I/O, keeps nothing and changes nothing it was
// given; the same input, in any order, gives the same plan. The caller owns all state. It
// hands back in Snapshot.Hold what it got in Plan.Hold.
//
// # What goes
//
// First, whatever the disk says, images unused for MaximumAge. Then, if the disk needs it,
// the shortest prefix of the others, least recently used first, that covers the need. Then
// images of the prefix are given back, newest first, as long as the need is met without
// them. What an image frees comes from the graph alone: nominal sizes are wrong in both
// directions, because two images with the same layers free nothing one by one, and
// everything together.
//
// If all candidates together cannot reach a low threshold, they go once, and the plan
// carries a [Hold].
//
// # Invariants
//
// An image with any of the Kept reasons up to [KeptYoung] never goes. Doubt makes an image
// younger, never older: an unknown last use counts from the first observation, a time in
// the future as now. An inventory that makes no sense (an image listed twice, or a root
// outside the graph) removes nothing it touches.
//
// # Questions
//
// [Ask] plans for a need that somebody names, [Why] goes through all rules for one image,
// and [Account] says what every image takes, and what belongs to nobody. They share
// Decide's protections, order and walk over the graph, so that their answers agree.
//
// # Failure modes and sources
//
// Wrong figures in the graph make a plan too long or too short, never unsafe: the caller
// reads the disk after each removal and stops once it is low. Thresholds and order are
// those of the kubelet's image collector (pkg/kubelet/images/image_gc_manager.go), the
// maximum age is KEP-4210, the marking is that of containerd's collector (pkg/gc).
package image
