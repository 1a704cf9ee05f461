// Command e2e runs ebb in a real cluster, on one machine. It installs and enables ebb as
// docs/install.md says, command by command. It fills the disk, deletes Deployments,
// replaces, kills and inspects ebb, and uninstalls it.
//
// # What there is
//
// The process that a person starts prepares what needs the real machine (images). It then
// starts itself again inside a throwaway machine (package tools/cluster), where
// deploy/cluster/provision.sh makes a one-node cluster. Vagrantfile runs the same script
// in a virtual machine; here it runs without systemd. Scenarios run in order and build on
// the state that earlier ones leave (scenarios.go). Each prints what it verified; the
// first failed check ends the run.
//
// # Invariants
//
//   - Nothing is left on the machine, however the run ends: see tools/cluster.
//   - Everything but images is real: no part of Kubernetes is replaced by a fake.
//   - All commands of the pages are run, and as printed (document.go).
//   - A scenario waits for a condition, with a bound, never for a fixed time.
//
// # What differs from an operator's cluster
//
// The registry runs in this process. Images other than ebb's are imported. operator.go
// does what the Prometheus Operator and Grafana's sidecar do with objects. There is no
// DNS, which ebb does not need. etcd does not wait for the disk. An image counts as old
// after 5 s instead of 2 m. Prometheus scrapes every second, and its rules wait 4 s
// instead of minutes: otherwise a run would take an hour. The expressions of the rules are
// unchanged, except for the window over which a disk must fall. deploy/prometheus tests
// the rules unchanged.
//
// # Failure modes
//
// On an error, --out holds the logs of all components, the objects, and ebb's own logs.
package main
