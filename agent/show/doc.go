// Package show makes texts, tables and documents of what agents answer (agent/node/page).
//
// # Invariants
//
//   - It asks nobody and reads no clock: the same pages give the same text. Ages are those at
//     the time of the page, by the agent's clock.
//   - Whatever comes from a node or a cluster is one bounded line without anything that a
//     terminal obeys, in texts as in documents. JSON escapes and loses nothing; in YAML
//     such letters are replaced.
//   - A table fits the width that it is given: the widest columns are cut, then columns that
//     can be missed are left out.
//   - Documents have a format number, and fields that are added, never renamed.
//
// # Failure modes
//
// A node without an answer is shown with the reason, after those with one, and never counted
// as one that has nothing. A word of an agent that this package does not know (a reason, a
// state, an event) is shown as it is.
package show
