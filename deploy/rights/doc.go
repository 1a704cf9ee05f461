// Package rights tests, on a real node, that the capabilities which the DaemonSet in
// deploy/manifests gives the agent are enough, and that each is needed.
// docs/security-agent.md explains each of them.
//
// The test starts itself again with one capability less, and tries the call for which
// the agent needs that capability. It then runs the agent with exactly these
// capabilities, as the DaemonSet does, and without a way to gain others (no_new_privs),
// until the agent has removed images from a full disk. It repeats that with the
// capabilities of the chart's preset without SYS_ADMIN. Neither seccomp nor AppArmor is
// tested here: deploy/cluster runs with seccomp.
package rights
