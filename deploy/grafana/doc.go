// Package grafana holds the dashboards for Grafana 10 and newer:
//
//   - fleet.json shows all nodes, by sums, counts and the worst nodes. It has no series for
//     each node, so that it can be read with 200 nodes, and more.
//   - node.json shows everything about the chosen nodes.
//   - controller.json shows ebb-controller.
//
// They link to each other by their UIDs. Each one has a variable for its Prometheus data
// source. They query metrics only, no recording rules, so they work before any rule is
// loaded.
//
// Defaults that Grafana fills in itself are left out. An export from Grafana has all of them:
// copy only your changes from it. One default must be set: without thresholds or a fixed
// colour, Grafana draws every value of 80 and more in red.
//
// The package has no code of its own. Its tests check that
//
//   - panels do not overlap, and have units and descriptions,
//   - links between dashboards name dashboards that exist,
//   - expressions name only metrics and labels that docs/metrics.md and
//     docs/controller-metrics.md list,
//   - each query has data if agents and controllers export all that they can, and no query of
//     fleet.json has more than 30 series with 200 such nodes,
//   - a real Prometheus answers each query, and with data where data is expected, in modes
//     enforce and observe. It scrapes a real agent, and the metrics that a controller exports
//     from its start.
//
// No Grafana has drawn these dashboards here: neither Debian nor a Go module offers Grafana.
// The tests check the structure and the queries of the panels.
package grafana
