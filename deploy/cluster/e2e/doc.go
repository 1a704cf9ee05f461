// Command e2e runs ebb in a real cluster, on one machine: it is installed and allowed to
// act as docs/install.md says, command by command, fills the disk, deletes Deployments, is
// replaced, killed, looked at, and uninstalled.
//
// # What there is
//
// The process that a person starts prepares what needs the real machine (images), and
// runs itself again inside of a throwaway machine (package tools/cluster), where
// deploy/cluster/provision.sh makes a one-node cluster: the script that Vagrantfile
// runs in a virtual machine, but without systemd. Scenarios follow each other and rest on
// what the ones before have left (scenarios.go). Each says what holds, and the first that
// does not hold ends the run.
//
// # Invariants
//
//   - Nothing is left on the machine, whatever ends the run: see tools/cluster.
//   - Everything but images is real: nothing here stands in for a part of Kubernetes.
//   - Commands of the pages are run as printed (document.go), and all of them.
//   - A scenario waits for what it wants to see, with a bound, never for a time.
//
// # What differs from an operator's cluster
//
// The registry is in this process, and other images than ebb's are imported. What the
// Prometheus Operator and Grafana's sidecar do with objects is done here (operator.go).
// There is no DNS, which ebb does not need.
// etcd does not wait for the disk. An image counts as old after 5 s instead of 2 m, and
// Prometheus scrapes every second, with rules whose patience is 4 s instead of minutes:
// else a run would take an hour. What the rules ask is not changed but for the time
// over which a disk is to fall; deploy/prometheus tests them as they are.
//
// # Failure modes
//
// On an error the logs of all components, objects, and ebb's own logs are in --out.
package main
