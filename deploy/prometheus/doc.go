// Package prometheus holds what Prometheus needs to know of ebb: rules.yaml with
// recording and alert rules, rules_test.yaml with promtool's unit tests of them,
// prometheus.yml with a way to find the targets in a cluster. It has no code of its own;
// its tests see to it that
//
//   - every alert is proven to fire, with the words that people will read, and to be
//     over again,
//   - every alert leads to a section of docs/operate.md,
//   - rules name only metrics, and labels, that docs/metrics.md and
//     docs/controller-metrics.md have,
//   - the configuration gives targets the labels that the rules count on.
package prometheus
