// Package stats says what the kernel programs and the records tell of a node besides
// what is decided: how much of the images is ever read (Heat), who fills the disk
// (Writers), what runs in the kernel (Programs), how long images have been unused
// (Unused). Nothing is decided by it.
//
// Each part registers its own collector. The loop brings what changes rarely (images,
// containers); a scrape and a page read the kernel's counts, and change nothing.
package stats
