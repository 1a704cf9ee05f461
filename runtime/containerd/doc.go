// Package containerd answers ebb's questions to a containerd, from Debian's
// 1.6 to 2.4: which images there are, what keeps each of them, what removing
// one would free, where its layers are, and what changes.
//
// # Purpose
//
// The CRI alone cannot answer. It knows one namespace, counts nominal sizes,
// and sees neither builders nor leases. So [Runtime] joins the CRI's list of
// images with containerd's own records of every namespace, and computes the
// same graph that containerd's garbage collector walks. Removal goes through
// the CRI, so that the CRI's own view of the images stays true.
//
// # Invariants
//
//   - An image is in use if a container of any namespace and state was made
//     from it, or if an active or view snapshot stands on its top layer. Where
//     two answers are possible the image counts as in use.
//   - An inventory is many calls long, and may mix two states. An image goes by what
//     [Runtime.Check] says of it, or by [Runtime.Withdraw], which refuses one that has
//     changed, and [Runtime.Users].
//   - The graph holds no edge to an object that does not exist, and none into
//     the record of an image that the CRI can remove: once the record is gone,
//     a lease on it holds nothing (a dead edge, for containerd, too).
//   - Whatever this package creates (a lease that expires, view snapshots under
//     it) carries its label and is neither a use nor a holder. Views of a run
//     that crashed are removed by the next one; were there no next one,
//     containerd would collect them once the lease has expired.
//   - Everything containerd says is data: labels, names and configs may be
//     anything, and are bounded before they are parsed.
//
// # State
//
// A Runtime may be used by several goroutines. It keeps what cannot change:
// the config digest and chain ID behind each target digest, and the usage of
// committed snapshots, both only for what the last inventory still saw.
//
// # Failure modes
//
// While containerd is away every call fails at once, and gRPC reconnects below;
// [Runtime.Watch] says when it is back. Images whose content is incomplete, or
// made for another platform, are not in the inventory; they hold what they
// refer to. Where the sandbox image cannot be told from others, nothing may be
// removed (Inventory.Blocked).
//
// # Sources
//
// containerd v2.4.2: core/metadata/gc.go (roots and references),
// docs/garbage-collection.md (labels), internal/cri/server/images (removal,
// pinning), plugins/snapshots/overlay (mounts). OCI image-spec identity
// (chain ID).
package containerd
