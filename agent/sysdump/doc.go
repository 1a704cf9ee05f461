// Package sysdump collects what a problem report about ebb needs into one archive: versions,
// objects, configuration, logs, and the state that agents and controllers report.
//
// # Invariants
//
//   - It reads no Secret. It leaves out values of environment variables, and annotations except
//     ebb's and a few of Kubernetes. Package redact removes secrets from everything else, before it
//     is written anywhere.
//   - The first file, CONTENTS.txt, lists all others, with what was removed from each.
//   - A read that fails is listed in errors.txt, and does not stop the others. Only the list of
//     ebb's pods must succeed.
//   - The size of a file and of the archive is bounded. So is the memory: it holds a few files at a
//     time.
//   - The archive appears under its name only when it is complete. Only its owner can read it, and
//     it never replaces another file.
//   - It changes nothing in the cluster or on a node.
package sysdump
