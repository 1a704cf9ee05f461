// Package ui renders pages about nodes for one person's browser, on this machine alone.
//
// # Invariants
//
//   - It shows what the person may see: it asks agents as the commands do, with their rights. It changes nothing.
//   - It answers GET alone, on a loopback address, for a Host that is that address, without an Origin of others,
//     and below the token that the printed address has.
//   - What nodes say is text. Templates escape it, and no page may load or run anything but ebb's own files.
//   - Pages are complete without scripts. With them, the part that changes is replaced when it has changed.
//
// # Limits
//
// The fleet's page shows the 100 nodes under most pressure, or those whose names have a text in them. It asks all
// agents each time it is shown, and every 30 seconds while it is open.
package ui
