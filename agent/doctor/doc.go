// Package doctor looks at a node before, and while, ebb-agent works on it, and
// says what is right, what is not, and the way out.
//
// # Purpose
//
// Two collectors of images on one node, an eviction threshold of the kubelet's that is
// reached before ebb's, a kernel without what the agent needs: none of these fails. Each
// only makes a node behave otherwise than its operator thinks. So [Collect] reads what
// there is into [Facts], [Evaluate] turns them into a [Report], and text.go writes it for
// people. The report as JSON is for machines; its field names stay (docs/doctor.md).
//
// # Invariants
//
//   - Nothing on the node is changed: nothing is written, mounted, created or
//     signalled. Where nothing is pinned the kernel programs are loaded without
//     pins, and gone a moment later; Options.SkipProbes leaves that out.
//   - [Evaluate] is pure: the same facts, the same report, in the same order.
//   - What could not be found out is a finding, and never counts as good.
//   - Whatever is not right comes with why it matters and what to do.
//   - Everything that is shown is on one line and bounded: command lines, paths
//     and answers are somebody else's.
//
// # Failure modes
//
// Each reading has a time limit of its own. One that fails becomes a check that
// says so; the others go on.
package doctor
