// Package sysdump puts what a report about ebb needs into one archive: what runs, with
// which configuration, what it logged, and what it says of itself.
//
// # Invariants
//
//   - No Secret is asked for. Values of environment variables and annotations that are not
//     ebb's are left out, and package redact takes secrets out of all the rest, before it
//     is written anywhere.
//   - The first file, CONTENTS.txt, lists all others, with what was taken out of each.
//   - What could not be had is in errors.txt, and ends nothing.
//   - A file and the whole are bounded; so is what is in memory: a few files at a time.
//   - The archive appears under its name when it is whole, for its owner alone, and
//     never in the place of another file.
//   - It only reads: nothing in the cluster, or on a node, is changed.
package sysdump
