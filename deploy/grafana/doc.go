// Package grafana holds the dashboards for Grafana 10 and newer:
//
//   - fleet.json shows all nodes, by sums, counts and the worst nodes. It has no series for
//     each node, so that it can be read with 200 nodes, and more.
//   - node.json shows everything about the chosen nodes.
//   - controller.json shows ebb-controller.
//
// They link to each other by their UIDs. Each one asks for its Prometheus itself. They need
// the metrics alone, no recording rule, so they work before any rule is loaded.
//
// Defaults that Grafana fills in itself are left out. An export from Grafana has all of them:
// take over from it only what you meant to change. One default has to be set: without
// thresholds or a fixed colour, Grafana draws every value of 80 and more in red.
//
// The package has no code of its own. Its tests check that
//
//   - panels have places of their own, units, and descriptions for people,
//   - links between dashboards name dashboards that exist,
//   - expressions name only metrics, and labels, that docs/metrics.md and
//     docs/controller-metrics.md have,
//   - no query of fleet.json has more than 30 series with 200 nodes,
//   - a real Prometheus that scrapes a real agent, and what a controller exports from
//     its start, answers each query, and those that should with data: in mode enforce, and
//     in mode observe.
//
// No Grafana has drawn them here: none is to be had from Debian or as a Go module. The tests
// check the structure, and what the panels ask for.
package grafana
