package bpf

import (
	"maps"
	"slices"
	"strings"
)

// Counters is what the programs counted since they were attached, which may be
// before this process started. Events in the Lost fields cannot be recovered.
type Counters struct {
	Execs      uint64 // in overlay roots
	Exits      uint64 // of whole processes in overlay roots
	Stamped    uint64 // uses of tracked layers
	Unresolved uint64 // uses of other layers, noted for Track

	UnresolvedLost uint64 // no room to note them
	UnreadableLost uint64 // the overlay could not be followed

	Checked     uint64 // allocations compared with a watermark
	Summed      uint64 // exact readings, taken near a watermark
	Approximate uint64 // readings that could not be exact: the cautious bound was used
	Raised      uint64 // crossings sent
	Neared      uint64 // events of watermarks that came near: see Crossing.Near
	Rearmed     uint64 // watermarks armed again by the kernel

	// CrossingsHeld counts crossings that found the ring buffer full. They are
	// late, not lost: the watermark stays armed for the next allocation.
	CrossingsHeld uint64

	WriterChanges   uint64 // growth and shrink of writers
	WritersLost     uint64 // no room for another writer, or its cgroup could not be read
	WriterBytesLost uint64 // bytes grown or shrunk by those
	WritersUnjoined uint64 // cgroups looked up at each change: no room to remember them
	WritersUnowned  uint64 // changes by kernel workers for an unknown owner: count for the root cgroup

	HeatTouched   uint64 // files of layers counted, each once
	HeatUntracked uint64 // files that are on none of the container's own layers

	HeatFilesLost  uint64 // touches of files that found no room
	HeatLayersLost uint64 // touches of layers that found no slot
	HeatUnreadable uint64 // the path from a file to its layer could not be followed

	// Missed counts, by the object's name, the runs that the kernel skipped because
	// the program was running on the same CPU already. That needs an interrupt or
	// Linux 7.0, on which a program can be preempted. Before 6.1 no run is skipped.
	Missed map[string]uint64
}

// Count is how often something happened.
type Count struct {
	Event string `json:"event"` // a stable name
	Count uint64 `json:"count"`
}

// Events lists every count that is no loss.
func (c Counters) Events() []Count {
	return []Count{
		{"exec", c.Execs},
		{"exit", c.Exits},
		{"stamped", c.Stamped},
		{"unresolved", c.Unresolved},
		{"allocation_checked", c.Checked},
		{"allocation_summed", c.Summed},
		{"allocation_approximate", c.Approximate},
		{"crossing_raised", c.Raised},
		{"watermark_neared", c.Neared},
		{"watermark_rearmed", c.Rearmed},
		{"writer_change", c.WriterChanges},
		{"writer_unjoined", c.WritersUnjoined},
		{"writer_unowned", c.WritersUnowned},
		{"heat_file", c.HeatTouched},
		{"heat_untracked", c.HeatUntracked},
	}
}

// Lost lists every kind of loss, those with a count of 0 included.
func (c Counters) Lost() []Count {
	lost := []Count{
		{"unresolved_full", c.UnresolvedLost},
		{"overlay_unreadable", c.UnreadableLost},
		{"ring_buffer_full", c.CrossingsHeld},
		{"writers_full", c.WritersLost},
		{"heat_files_full", c.HeatFilesLost},
		{"heat_layers_full", c.HeatLayersLost},
		{"heat_unreadable", c.HeatUnreadable},
	}
	missed := map[string]uint64{objectLastUse: 0, objectUsage: 0, objectWriters: 0, objectHeat: 0}
	for object, n := range c.Missed {
		for kind := range missed {
			if strings.HasPrefix(object, kind) {
				missed[kind] += n
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(missed)) {
		lost = append(lost, Count{strings.TrimSuffix(kind, "_") + "_missed", missed[kind]})
	}
	return lost
}

// ProgramStatus is the state of one program, for display and metrics.
type ProgramStatus struct {
	Object      string // lastuse, heat, usage_TYPE, writers, or writers_TYPE with the type of filesystem
	Name        string
	AttachPoint string // tracepoint or function
	Attached    bool
	Adopted     bool   // recording since before this process
	Reason      string // why not attached, or in what way less exact; "" if all is well
	Idle        string // why not attached although all is well; "" otherwise
	Waits       bool   // for the module of its filesystem; Reason names it
}

// Working reports whether the program does its work: it is attached, or need not
// be.
func (s ProgramStatus) Working() bool { return s.Attached || s.Idle != "" }
