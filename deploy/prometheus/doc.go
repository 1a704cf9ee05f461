// Package prometheus holds configuration for Prometheus and Alertmanager. rules.yaml has the
// recording rules and the alerts that page. optional.yaml has the alerts that can wait.
// rules_test.yaml and optional_test.yaml are promtool's unit tests of both. prometheus.yml
// finds the targets in a cluster. alertmanager.yaml has routes and inhibition. The package
// has no code of its own; its tests check that
//
//   - every alert fires, with the text that people will read, and resolves,
//   - no paging alert fires where ebb only observes,
//   - a real Alertmanager inhibits exactly the alerts that alertmanager.yaml names,
//   - metric names follow Prometheus' conventions,
//   - every alert links to the section that docs/runbooks.md lists for it,
//   - rules name only metrics and labels that docs/metrics.md and docs/controller-metrics.md
//     list,
//   - the configuration gives targets the labels that the rules rely on.
package prometheus
