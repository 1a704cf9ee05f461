// Package ui serves pages about nodes to the browser of one person, on this machine only.
//
// # Invariants
//
//   - It shows only what the person may see: it asks agents as the commands do, with the person's
//     rights. It changes nothing.
//   - It answers only GET and HEAD requests with its own loopback address as Host, without a
//     foreign Origin, and below the token of the printed address.
//   - Text from nodes is untrusted. Templates escape it, and pages may load and run only ebb's own
//     files.
//   - Pages are complete without scripts. With scripts, the main part of a page is replaced when it
//     changes.
//
// # Limits
//
// The page of all nodes shows 100: up to 25 that do not answer, and those under most pressure. It can
// show only those whose names contain a text. It asks all agents each time it is shown, and every 30
// seconds while it is open. The page of a node shows 75 images at a time.
package ui
