// Package removal has the gate that every removal on a node passes, of images and of dead containers
// alike. The gate has the mode and the pause, the history, and the failures with their back-off. The
// package also computes the hourly caps of images.
package removal
