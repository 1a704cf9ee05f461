// Package orphans reads a cluster for `ebb orphans` and writes what policy/orphans finds:
// a table, JSON, YAML or names. It sends only reads, and reads nothing twice except what the
// report is about.
//
// # What is read
//
// The metadata of every type, page by page. Secrets of Helm releases once more, by a field
// selector, for their labels, never for their data. APIServices, webhook configurations, the
// Services and EndpointSlices behind those, and namespaces that have been terminating for too
// long are read whole. Owners that were in no list are read live.
//
// # Invariants
//
//   - What could not be read is listed (NotSeen), and makes the report incomplete.
//   - A command is for a shell: every argument is quoted, and unprintable characters are
//     written as octal numbers. It names the kubeconfig and the context that were given.
//   - What a running collector may resolve by itself is read again before it is reported.
//
// # Failure modes
//
// Lists of many types do not show one moment. A scan takes some 200 bytes of memory for each
// object, and the memory of the report.
package orphans
