// Package bpf has eBPF programs that record four things in the kernel. User space reads
// the records when it needs them; only a filesystem at its watermark wakes it.
//
//   - Last use: which images were used, and until when (lastuse.go, lastuse.bpf.c).
//   - Usage: whether a filesystem is about to run low (usage.go, usage_TYPE.bpf.c).
//   - Writers: which container fills it (writers.go, writers_TYPE.bpf.c).
//   - Heat: how much of an image's layers is ever read (heat.go, heat.bpf.c).
//
// Each concern is a struct with its own lock. [Probes] has the methods of all four.
//
// # Ownership
//
// The kernel owns the records. Pins below [Options.PinDir] keep the records and the
// programs alive while no agent runs. One process at a time holds a lock on that
// directory.
//
// Each object, one compiled .bpf.c, has a directory of its own there, named after a hash
// of its code and map sizes. The directory is filled under another name and then renamed,
// so it is complete or absent. [Load] adopts a directory with the same hash. Otherwise it
// attaches the new programs, waits for runs of the old ones to end, copies the old records
// and then removes the old pins. At every moment at least one of the two sets records. The
// objects that count writers share the maps of one object and are replaced together.
// Changes that happen while their counts are copied are lost.
//
// # Failure
//
// The objects fail independently, and each type of filesystem has its own. [Probes.Status]
// lists which failed and why, [Probes.CanWatch] reports where watermarks can be set, and
// [ReadReport] adds memory and run-time cost. An object whose filesystem is a module that
// is not loaded yet waits for [Probes.CatchUp]. Overlayfs does not wait: Load asks the
// kernel to load the module, because a container could start and end before CatchUp. Load
// fails only if neither last use nor any usage works, now or later: [ErrNotPermitted]
// names the missing capability, [ErrUnsupported] what the kernel lacks.
//
// Every kind of loss has a counter in [Counters]. The next Load repairs what a crash left,
// at whatever point it happened. If old stamps cannot be read, [Probes.Lost] reports true
// and the caller must treat every image as recently used.
//
// Requirements: Linux 5.12 with BTF for last use, 5.17 for heat, 5.19 for exact
// watermarks. Before 5.19 events come early by the shares of a counter that CPUs hold
// back. The tests pass on 6.18 with the filesystems built in. Last use and ext4 also pass
// on Debian's 6.1 with both overlayfs and ext4 as modules.
package bpf
