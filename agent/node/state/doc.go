// Package state keeps what must outlive the agent: when each image was first
// seen and last used, which containers' ends that has taken in, where resolved
// layers are, what the runtime has learnt of sizes and targets, recent removals, and the
// clock they are measured by. It is one bbolt file, state.db. Package history has buckets of its
// own there.
//
// The agent's loop owns the Records in memory. It hands changes to Save, which
// writes them in one transaction; the file is thus always a complete earlier
// state, also after kill -9 or power loss. Nothing here is needed for ebb to
// work: a file that cannot be read is moved aside and a directory that cannot
// be written leaves the agent with what it has in memory, and both are logged.
//
// A truncated file is dangerous to map: reading a page past its end is a bus
// error, which Go does not survive by default. Open therefore reads the whole
// file once with faults turned into panics (debug.SetPanicOnFault) before it
// trusts it. A page that leaves memory and cannot be read again later still ends
// the agent; its next start moves the file aside.
package state
