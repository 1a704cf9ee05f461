// Package csi asks a CSI driver to delete a volume: the one call that needs no node, no
// publishing and no Pod.
//
// A [Driver] is a name and a Unix socket. It has one connection, which it opens on first use.
// On each new connection the server must report that it is the driver of that name, and that
// its controller creates and deletes volumes. A broken connection is never redialed: another
// server may listen by then, and has to report the same first.
//
// Only OK is success. NotFound is an error: drivers answer OK for a volume that does not exist
// (CSI 1.13, DeleteVolume), so NotFound may come from the wrong backend. Errors carry one of
// the sentinels, except those that may pass, and never a secret. Every call ends when its
// context does, or after a timeout of its own.
package csi
