// Package workloads removes dead containers, sandboxes and what is left of the logs of
// pods that are gone, by the rules of policy/container.
//
// The loop owns Workloads: it tells it of events (Noted), asks when it wants to look
// next (Next), lets it look and decide (Reconcile), and hands it what became of the plan
// (Reported). The plan is carried out by the executor, a goroutine of its own (Run): the
// removal of a sandbox can hang for as long as a network plugin does, and the disk must
// not wait for it. While the executor is at work nothing is decided; its last report
// brings the next look.
//
// The executor asks the runtime and the source of pods again before each step. What
// fails is left alone for a while (package removal), and what rests on it with it.
package workloads
