// Package dashboard makes deploy/grafana/ebb.json, the dashboard of ebb for Grafana 10
// and newer. What is on it stands in the files rows_*.go, row by row, as a list of
// panels; where they go, and the many words that Grafana wants for each, is worked out
// here.
//
// # Invariants
//
//   - Panels fill rows of 24 columns from left to right and never overlap.
//   - Every panel has a unit and a description that says what is normal, and what to do.
//   - It needs the metrics alone, no recording rule, so that it works before any rule is
//     loaded.
//   - The same source gives the same bytes; "make generate" writes the file, and a test
//     compares.
//
// Tests in deploy/grafana run every expression of the file on a real Prometheus that
// scrapes a real agent.
package dashboard

//go:generate go run ./cmd/dashboard -file ../../deploy/grafana/ebb.json
