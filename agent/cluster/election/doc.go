// Package election chooses one of several instances by a Lease, with client-go's
// leader election.
//
// # What is promised
//
// [Run] calls its function while this instance holds the Lease. The function's
// context ends with [ErrLost] as its cause once RenewDeadline has passed since the
// last renewal that succeeded was begun: before LeaseDuration has, when another may
// begin, whatever the library is waiting for at that moment (when it gives up it
// first tries to release, for as long again). The process may have been stopped
// meanwhile and wake up late: [Fence] tells by the clock, without waiting for
// anybody to notice.
//
// At a clean end the function returns first; then the Lease is given back, so that
// another instance takes over within its RetryPeriod.
//
// [Mark] is a pair of annotations on the same Lease, which renewals leave alone.
//
// Sources: k8s.io/client-go/tools/leaderelection (v0.37: Run, renew, release).
package election
