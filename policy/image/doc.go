// Package image decides which container images of a node should be removed.
//
// [Decide] is a pure function: one [Snapshot] of the node and a time go in, one
// [Plan] comes out. It reads no clock, does no I/O, keeps nothing and changes
// nothing it was given; the same input, in any order, gives the same plan. The
// caller owns all state, also the little that must survive between two
// decisions, which it gets in Plan.Hold and hands back in Snapshot.Hold.
//
// # Lines
//
// Used space is counted as the kubelet does, 100 − ⌊available·100/capacity⌋ with
// what unprivileged writers can get, so the high line is reached when less than
// 101 − high percent are available. Bytes and inodes have their own lines and
// either starts a run. A run frees what is needed for those dimensions that
// reached their high line; one that is between its lines asks for nothing. The
// kubelet rounds what is to be freed down, and can end one percent above its low
// line; here it is rounded up, a difference of one byte at most.
//
// # Who may go
//
// An image with any of the Kept reasons up to [KeptYoung] never goes. A last use
// that is not known counts from the first observation, a time in the future as
// now: doubt makes an image younger, never older. An inventory that makes no
// sense (an image listed twice, without an ID, with a root outside the graph, a
// policy that does not validate) removes nothing it touches.
//
// While the pods cannot be asked, Wanted is their latest answer, and images that have
// arrived since then stay; without any answer those younger than [UnansweredAge].
// Older ones that nobody wanted by that answer go as ever.
//
// # What goes
//
// First, whatever the disk says, images unused for MaximumAge; then, if the
// disk needs it, the shortest prefix of the others, least recently used first,
// that reaches the need. What an image frees comes from the graph alone: the
// nodes that neither a holder nor an image that stays leads to. Nominal sizes
// lie in both directions: two images with the same layers free nothing one by
// one, and everything together.
//
// The whole order costs one walk over the graph. Mark everything that stays,
// then add the candidates back, last one first: what a candidate newly reaches
// is exactly what its removal frees after all those before it. This is linear,
// and cycles need no thought.
//
// Then images of the prefix are given back, newest first, as long as the need is met
// without them: one that shares its layers with images that stay, or small ones before
// a large one that met the need by far. Twins that go together are each as heavy as
// both. A layer that weighs nothing was never measured; its image is not given back.
//
// # Hold
//
// When all candidates together cannot reach a low line, they go once and the plan
// carries a [Hold]. Given back, newest first, are those that together would free
// no more than FutileShare of what is needed ([KeptFutile]), and leave the other line,
// if that can be reached, within reach: 40 of 7,600 inodes are not worth seven images.
// A hold remembers what was needed, so that they stay as it shrinks.
//
// A disk that is full of something else must not cost each image its place the
// moment it falls out of use. While a hold lasts, images that become unused later stay ([KeptHold]), until
//
//   - all candidates now do reach the low lines: an ordinary run, no hold;
//   - the disk is a percentage point of its capacity worse than when the hold
//     began, or the other dimension cannot reach its line either: everything that
//     may go goes once more, and the reading is renewed;
//   - usage falls below the high line, and no run is on: the hold is over.
//
// Images that were already unused when the hold began may go at any time during
// it, those below MinimumAge once they are older: a plan cut short by a failure
// or a cap on removals is taken up again. A line that can be reached is served
// also while the other one holds. MaximumAge goes on in a hold.
//
// # Failure modes
//
// Wrong figures in the graph make a plan too long or too short, never unsafe:
// the caller reads the disk after each removal and stops once it is low. Figures
// beyond 64 bits saturate.
//
// # Sources
//
// The arithmetic of the lines and the order are those of the kubelet's image
// garbage collector (k8s.io/kubernetes/pkg/kubelet/images/image_gc_manager.go);
// the maximum age is KEP-4210. The marking is that of containerd's collector
// (github.com/containerd/containerd/pkg/gc).
package image
