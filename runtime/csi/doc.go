// Package csi asks a CSI driver to delete a volume: the one call that needs no node, no
// publishing and nobody's Pod.
//
// A [Driver] is a name and a Unix socket. Its connection is opened when it is needed first,
// and is one connection: what listened there reported that it is the driver of that name and
// that its controller creates and deletes volumes, and whoever listens there later has to
// say so, too. A connection that broke is never dialed again behind that proof.
//
// Only OK is success. NotFound is none: drivers answer OK for a volume that is not there
// (CSI 1.13, DeleteVolume), so that NotFound may be the word of the wrong backend. Errors
// carry one of the sentinels, and never a secret. Every call ends when its context does, or
// after a time of its own.
package csi
