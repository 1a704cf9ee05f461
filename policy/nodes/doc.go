// Package nodes finds Nodes whose machines are gone, in clusters without a cloud controller
// that would delete them.
//
// A Node is stale if it has not been ready, and nothing on it has given a sign of life, for
// as long as Config says: its Lease expired, its conditions without a heartbeat, neither of
// them written while this collector looked, whatever the time in them. Stale Nodes
// are reported. One is deleted only if all of this holds as well:
//
//   - somebody has marked it, with a label or a taint that Config names,
//   - this collector has watched Nodes, Leases and VolumeAttachments for a while, without a
//     sign of life,
//   - no volume is attached to it, unless it has the taint out-of-service,
//   - an inventory of machines, asked for after all that, does not have it, neither by name
//     nor by provider ID; and is believed: see judge,
//   - a live read of its Lease, just before, finds it as it is known.
//
// The deletion has the Node's UID and version as preconditions. What is not known keeps all.
//
// The collectors of what is bound to Nodes share what one can know of Nodes: which are there or lost
// ([Knowledge], [Losses]), since when one is missing and what a live read found ([Absence]), and when one
// gave a sign of life ([Signs]).
package nodes
