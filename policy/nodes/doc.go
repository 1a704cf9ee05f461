// Package nodes finds Nodes whose machines are gone, in clusters without a cloud controller that would
// delete them.
//
// A Node is stale if it has not been ready and has given no sign of life for as long as configured. No
// sign of life means that its Lease has expired, its conditions have no heartbeat, and this collector saw
// neither of them written, whatever times they have. Stale Nodes are reported. A stale Node is deleted
// only if all of this holds as well:
//
//   - an operator has marked it, with a label or a taint that Config names,
//   - this collector has watched Nodes, Leases and VolumeAttachments for a while, without a sign of life,
//   - no volume is attached to it, unless it has the taint out-of-service,
//   - an inventory of machines, asked for after all that, is believed (see judge) and has it neither by
//     name nor by provider ID,
//   - a live read of its Lease, just before, finds the version that is known.
//
// The deletion has the Node's UID and version as preconditions. While anything of this is unknown, the
// Node is kept.
//
// Collectors of objects that are bound to Nodes share the knowledge of Nodes: which exist or are lost
// ([Knowledge], [Losses]), since when a Node is missing and what a live read found ([Absence]), and when
// a Node gave a sign of life ([Signs]).
package nodes
