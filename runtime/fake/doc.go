// Package fake is a container runtime in memory, for tests of the packages that use
// runtime/containerd. It gives the same answers with the same meaning (the suite of
// runtime/containerd tests both), on a disk whose usage follows from what is stored.
//
// A test owns the [Runtime] and acts as users and the kubelet with Import, Run,
// Delete and so on, all safe to call while the code under test runs. Faults are
// programmed with [Runtime.SetFaults] and [Runtime.CutEvents]. Nothing here
// sleeps except for [Faults].Delay and Collect, and no goroutine is started.
package fake
