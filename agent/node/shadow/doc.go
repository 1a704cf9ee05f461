// Package shadow counts what an agent in mode observe would have removed, what was removed without it, and
// which of both was needed again.
//
// An image that would have been removed is gone in the shadow: the next plan is made as if the node lacked it
// ([image.Without]). The image comes back when a container uses it, when a pod wants it, or when it is
// pulled, imported or tagged. A node in mode enforce would pull it then. So an agent in mode enforce
// removes the same images at the same moments.
//
// # Limits
//
//   - Free space is computed; nothing can be measured.
//   - An image that others remove is gone in the shadow, too, although the agent may have kept it.
//   - Images that were removed while the agent was not running count without their bytes. So do all that
//     others remove on a node with more than 2,000 images. Who removed an image is not known.
//   - Where layers and blobs have filesystems of their own, the bytes that ebb would free are those on the
//     filesystem that needs them.
//   - Dead containers that an agent in mode enforce would have removed keep their images until the kubelet
//     removes them.
//   - A use that is only assumed, because stamps were lost, counts as a use.
//   - The time for which a disk was above its threshold is as exact as the looks at images are frequent.
package shadow
