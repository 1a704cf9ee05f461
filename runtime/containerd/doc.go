// Package containerd reads and removes the images of a containerd, from Debian's 1.6 to 2.4. It
// reports which images there are, what keeps each of them, what removing one would free, where
// its layers are, and what changes.
//
// The CRI alone is not enough. It knows one namespace, counts nominal sizes, and sees neither
// builders nor leases. So [Runtime] joins the CRI's list of images with containerd's own records
// of every namespace, and computes the same graph that containerd's garbage collector walks.
// [Runtime.Remove] goes through the CRI, so that the CRI's own view of the images stays true.
//
// # Invariants
//
//   - An image is in use if a container in any namespace and state was made from it, or if
//     its top layer is the parent of an active or view snapshot. In doubt the image is in use.
//   - An inventory takes many calls, and may mix two states. So a removal relies on
//     [Runtime.Check], or on [Runtime.Withdraw] and [Runtime.Users], never on an inventory.
//   - The graph has no edge to an object that does not exist, and none to the record of an
//     image that the CRI can remove: once the record is deleted, a lease on it holds nothing.
//   - What this package creates (a lease that expires, view snapshots under it) carries its
//     label and counts neither as a use nor as a holder. The next run removes views of a crashed
//     one; without a next run, containerd collects them once the lease has expired.
//   - All text from containerd is untrusted data: labels, names and configs are bounded before
//     they are parsed.
//
// # Failure modes
//
// While containerd is down every call fails at once, and gRPC reconnects; [Runtime.Watch]
// reports when containerd is back. Images whose content is incomplete, or made for another
// platform, are not in the inventory; they hold what they refer to. If the sandbox image cannot
// be identified, nothing may be removed (Inventory.Blocked).
//
// Sources: containerd v2.4.2: core/metadata/gc.go (roots and references),
// docs/garbage-collection.md (labels), internal/cri/server/images (removal, pinning),
// plugins/snapshots/overlay (mounts). OCI image-spec identity (chain ID).
package containerd
