// Package show renders the answers of agents (agent/node/page) as texts, tables and documents.
//
// # Invariants
//
//   - The package sends no request and reads no clock: the same pages give the same text. Ages are
//     as of the time of the page, by the agent's clock, unless the caller passes another time.
//   - In a text, anything that comes from a node or a cluster is one bounded line without
//     characters that a terminal interprets. Documents have no such characters either: JSON escapes
//     them and loses nothing, YAML replaces them.
//   - A table fits the given width: the widest columns are cut, then columns that can be spared are
//     left out.
//   - Documents have a format number. Fields are added, never renamed.
//
// # Failure modes
//
// A node that did not answer is listed after the others, with the reason. It is never counted as a
// node that has nothing. A reason, state or result that this package does not know is shown as it
// is.
package show
