// Package stats exports what the kernel programs and the records show about a node: how much of the
// images is ever read (Heat), who fills the disk (Writers), what runs in the kernel (Programs),
// how long images have been unused (Unused), and when the kubelet removes images (Kubelet). No decision depends on it.
//
// Each part registers its own collector. The loop supplies what changes rarely (images,
// containers). A scrape and a page read the kernel's counts, and change nothing.
package stats
