// Package rights tests, on a real node, that the capabilities which the DaemonSet
// in deploy/manifests gives the agent are enough, and that each is needed: what
// docs/security-agent.md says of them.
//
// The test runs itself again with one capability less and tries what that one is
// for, each by the call that the agent makes. It then runs the agent itself with
// all of them and no others, as the DaemonSet does, and without the chance to gain
// any (no_new_privs), until it has removed images from a full disk; and once more with
// those of the chart's preset without SYS_ADMIN. Neither seccomp
// nor AppArmor is in this: deploy/cluster has the first.
package rights
