// Package fake is a container runtime in memory, for tests of what stands on
// runtime/containerd. It answers the same questions with the same meaning (the
// suite of runtime/containerd holds both to it), on a disk whose usage follows
// from what is stored.
//
// A test owns the [Runtime] and plays people and kubelet with Import, Run,
// Delete and so on, all safe to call while the code under test runs. Faults are
// programmed with [Runtime.SetFaults] and [Runtime.CutEvents]. Nothing here
// sleeps but for [Faults.Delay], and no goroutine is started.
package fake
