// Package doctor checks a node before ebb-agent works on it, and while it does. It reports what is
// right, what is wrong, and how to fix that.
//
// # Purpose
//
// Two collectors of images on one node, an eviction threshold of the kubelet that is reached before
// ebb's, a kernel without what the agent needs: none of these fails. Each only makes a node behave
// differently from what its operator expects. So [Collect] reads the node into [Facts], [Evaluate]
// turns them into a [Report], and text.go writes it for people. The report as JSON is for machines;
// its field names do not change (docs/doctor.md).
//
// # Invariants
//
//   - Nothing on the node is changed: nothing is written, mounted, created or signalled. If no
//     kernel programs are pinned, they are loaded without pins and removed a moment later.
//     Options.SkipProbes skips that.
//   - [Evaluate] is pure: the same facts, the same report, in the same order.
//   - Anything that could not be determined is a finding, and never counts as good.
//   - Each problem comes with why it matters and what to do.
//   - Each text of a report is on one line and bounded: command lines, paths and answers are
//     untrusted.
//
// # Failure modes
//
// Each reading has its own time limit. A reading that fails becomes a check that says so; the
// others continue.
package doctor
