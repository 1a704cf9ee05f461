// Package prometheus holds what Prometheus and Alertmanager need to know of ebb: rules.yaml
// with recording rules and the alerts that page, optional.yaml with those that can wait,
// rules_test.yaml and optional_test.yaml with promtool's unit tests of them, prometheus.yml
// with a way to find the targets in a cluster, alertmanager.yaml with routes and inhibition.
// It has no code of its own; its tests see to it that
//
//   - every alert is proven to fire, with the words that people will read, and to be
//     over again,
//   - none that pages does so where ebb only observes,
//   - a real Alertmanager inhibits what alertmanager.yaml says, and nothing else,
//   - names of metrics follow Prometheus' conventions,
//   - every alert leads to the section that docs/runbooks.md lists for it,
//   - rules name only metrics, and labels, that docs/metrics.md and
//     docs/controller-metrics.md have,
//   - the configuration gives targets the labels that the rules count on.
package prometheus
