// Package shadow keeps the accounts of an agent that only observes: what it would have removed, what went
// without it, and which of both was needed again.
//
// An image that would have been removed is gone in the shadow: the next plan is made as if the node lacked it
// ([image.Without]). It comes back when somebody needs it, as a node that enforces would pull it then: a
// container uses it, a pod wants it, or it is pulled, imported or tagged. So the agent that enforces removes the
// same images at the same moments.
//
// # Limits
//
//   - What would be free is computed; nothing can be measured.
//   - An image that others remove is gone in the shadow, too, although the agent may have kept it.
//   - What went while the agent was away has no bytes, nor has anything on a node with more than 2,000 images. Who
//     removed an image is not known.
//   - Where layers and blobs have filesystems of their own, what ebb would free is of the one that needs it.
//   - Dead containers that an agent that enforces would have removed keep their images until the kubelet removes them.
//   - A use that is only feared, because stamps were lost, counts as one.
//   - How long a disk was above its threshold is as the looks at images found it.
package shadow
