// Package bpf asks the kernel four questions without being woken for the answers:
//
//   - Which images were used, until when? Last use: lastuse.go, lastuse.bpf.c.
//   - Is a filesystem about to run low? Usage: usage.go, usage_TYPE.bpf.c.
//   - Who fills it? Writers: writers.go, writers_TYPE.bpf.c.
//   - How much of an image's layers is ever read? Heat: heat.go, heat.bpf.c.
//
// Each concern is a struct with its own lock; [Probes] has the methods of all.
//
// # Who owns what
//
// The kernel owns the records. Pins below [Options.PinDir] keep them, and the
// recording, alive while no agent runs. One process at a time holds a lock on that
// directory. Each object has a directory of its own there, named after a hash of its
// code and sizes. It is filled under another name and renamed, so it is there as a
// whole or not at all. [Load] adopts a directory of the same hash. Otherwise it
// attaches the new programs, waits for runs of the old ones to end, carries the old
// records over and then removes the old pins: at every moment at least one of the
// two records. The objects that count writers share the maps of one and are replaced
// together; what happens while their counts are copied is lost.
//
// # Failure
//
// The objects fail apart, one for each type of filesystem among them. [Probes.Status]
// says which and why, [Probes.CanWatch] where watermarks can be set, and [ReadReport] also
// what they take and cost. An object whose filesystem is a module that is not loaded
// yet waits for [Probes.CatchUp]. Overlayfs does not wait: Load has the kernel fetch
// it, because a container could begin and end before anybody has caught up. Load
// fails only if neither last use nor any usage works, nor can come: [ErrNotPermitted]
// names the missing capability, [ErrUnsupported] what the kernel lacks. Every loss has
// a counter in [Counters]. The next Load mends a crash at any point; if old stamps
// could not be read, [Probes.Lost] says so, and the caller has to take every image for
// recently used.
//
// Needed: Linux 5.12 with BTF for last use, 5.17 for heat, 5.19 for exact watermarks
// (before that events come early by what CPUs keep back of a counter). The tests pass
// on 6.18 with the filesystems built in, and last use and ext4 on Debian's 6.1 with
// both as modules.
package bpf
