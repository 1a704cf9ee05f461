// Package prometheus runs Debian's Prometheus (package prometheus) beside programs of
// ebb, for tests: a real Prometheus scrapes them, evaluates the rules of
// deploy/prometheus and answers the queries of deploy/grafana. Debian's Alertmanager
// (package prometheus-alertmanager) shows which alerts are inhibited.
//
// # Invariants
//
//   - A [Server] or an [Alertmanager] listens only on the loopback address, on a port that the kernel
//     chooses, and keeps everything in its directory.
//   - It cannot outlive its process: the kernel kills it (PR_SET_PDEATHSIG), from a
//     thread that lives as long as the child.
//
// # Failure modes
//
// The error of a start includes the end of the log. Debian's build has no kubernetes_sd:
// targets are listed (static_configs), with the labels that a cluster would give them.
//
// [Uses] finds the series in an expression, as far as tests of names and labels need it.
// Only promtool and Prometheus check whether an expression is valid.
package prometheus
