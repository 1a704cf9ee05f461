// Package grafana holds ebb.json, the dashboard for Grafana 10 and newer, as it is
// imported: it asks for its Prometheus itself. Change it by hand, or in Grafana, and export
// it. It needs the metrics alone, no recording rule, so that it works before any rule is
// loaded. The package has no code of its own; its tests see to it that
//
//   - panels have places of their own, units, and descriptions for people,
//   - expressions name only metrics, and labels, that docs/metrics.md and
//     docs/controller-metrics.md have,
//   - a real Prometheus that scrapes a real agent, and what a controller exports from
//     its start, answers each of them, and those that should with data.
//
// No Grafana has drawn it here: none is to be had from Debian or as a Go module. What is
// checked is the structure, and what the panels ask for.
package grafana
