// Package removal is what everything that is removed on a node passes, images and dead
// containers alike: a gate with the mode, the history, and the book of failures and of how long
// each is left alone; and what the hourly caps of images allow.
package removal
