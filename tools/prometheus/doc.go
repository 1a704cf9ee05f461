// Package prometheus runs Debian's Prometheus (package prometheus) beside programs of
// ebb, for tests: the real one scrapes them, evaluates the rules of deploy/prometheus
// and answers the queries of deploy/grafana. Debian's Alertmanager (package
// prometheus-alertmanager) says which alerts are mute.
//
// # Invariants
//
//   - A [Server], or [Alertmanager], listens on the loopback address alone, on a port that the kernel
//     chooses, and keeps everything in the directory it was given.
//   - It cannot outlive its process: the kernel kills it (PR_SET_PDEATHSIG), from a
//     thread that lives as long as the child.
//
// # Failure modes
//
// The error of a start carries the end of its log. Debian's build has no
// kubernetes_sd: targets are listed (static_configs), with the labels that a cluster
// would give them.
//
// [Uses] reads which series an expression asks for, as far as a test of names and labels
// needs it; whether an expression is valid only promtool and Prometheus know.
package prometheus
