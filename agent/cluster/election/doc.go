// Package election chooses one of several instances by a Lease, with client-go's leader election.
//
// # What is promised
//
// [Run] calls its function while this instance holds the Lease. The function's context ends with
// [ErrLost] as its cause once RenewDeadline has passed since the last successful renewal was begun.
// That is before LeaseDuration has passed, when another instance may begin. It does not depend on
// what the library is waiting for at that moment: when the library gives up, it first tries to
// release the Lease, for as long again.
//
// The process may have been stopped and wake up late. [Fence] finds that out by the clock, without
// waiting for another goroutine to notice.
//
// At a clean end the function returns first. Then the Lease is released, so that another instance
// takes over within its RetryPeriod.
//
// [LeaseState] keeps a pair of annotations on the same Lease, which renewals leave alone.
//
// Sources: k8s.io/client-go/tools/leaderelection (v0.37: Run, renew, release).
package election
