// Package orphans reads a cluster for `ebb orphans` and writes what policy/orphans finds:
// a table, JSON, YAML or names. Nothing is sent but reads, and nothing is read twice but
// what the report is about.
//
// # What is read
//
// The metadata of every type, page by page; Secrets of Helm releases once more, by a field
// selector, for their labels, never for what is in them. Whole are read: APIServices,
// webhook configurations, the Services and EndpointSlices behind those, and namespaces that
// are being deleted for too long. Owners that no list had are read live.
//
// # Invariants
//
//   - What could not be read is listed (NotSeen), and makes the report incomplete.
//   - A command is for a shell: every argument is quoted, and what no terminal shows is
//     written as octal numbers. It names the kubeconfig and the context that were given.
//   - What a running collector ends by itself is looked at again before it is reported.
//
// # Failure modes
//
// Lists of many types are not of one moment. Some 200 bytes of memory an object, and what
// is reported.
package orphans
