// Package workloads removes dead containers, dead sandboxes and the logs of pods that are gone, by
// the rules of policy/container.
//
// The loop owns Workloads. It passes events in (Noted), asks for the next deadline (Next), starts a
// look and a decision (Reconcile), and passes in the results of the plan (Reported). The executor,
// a goroutine of its own (Run), carries out the plan: the removal of a sandbox can hang for as long
// as a network plugin does, and the disk must not wait for it. While the executor is at work
// nothing is decided; its last report brings the next look.
//
// The executor asks the runtime and the source of pods again before each step. A step that fails is
// left alone for a while (package removal), and with it the steps that depend on it.
package workloads
