// Package state keeps what must survive a restart of the agent, in one bbolt file, state.db:
//
//   - when each image was first seen and last used, and which ends of containers that includes,
//   - where resolved layers are,
//   - what the runtime has learnt of sizes and targets,
//   - recent removals,
//   - the clock that all this is measured by.
//
// Package history has its own buckets in the file.
//
// The agent's loop owns the Records in memory. It hands changes to Save, which writes them in one
// transaction. So the file is always a complete earlier state, also after kill -9 or power loss.
// ebb works without the file: an unreadable file is moved aside, and if the directory cannot be
// written, the agent continues with its records in memory. Both are logged.
//
// A truncated file is dangerous to map: reading a page past its end is a bus error, which Go does
// not survive by default. Open therefore reads the whole file once with faults turned into panics
// (debug.SetPanicOnFault) before it trusts it. A page that leaves memory and cannot be read again
// later still ends the agent; its next start moves the file aside.
package state
