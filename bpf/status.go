package bpf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Counters is what the programs saw since they were attached, which may be
// before this process started. Those in the Lost fields are gone for good.
type Counters struct {
	Execs      uint64 // in overlay roots
	Exits      uint64 // of whole processes in overlay roots
	Stamped    uint64 // uses of tracked layers
	Unresolved uint64 // uses of other layers, noted for Track

	UnresolvedLost uint64 // no room to note them
	UnreadableLost uint64 // the overlay could not be followed

	Checked     uint64 // allocations compared with a line
	Summed      uint64 // exact readings, taken near a line
	Approximate uint64 // exact readings that could not be had: cautious bound taken
	Raised      uint64 // crossings sent
	Neared      uint64 // of lines that came near: see Crossing.Near
	Rearmed     uint64 // lines armed again by the kernel

	// CrossingsHeld counts crossings that found the ring buffer full. They are
	// late, not lost: the line stays armed for the next allocation.
	CrossingsHeld uint64

	WriterChanges   uint64 // growth and shrink of writers
	WritersLost     uint64 // no room for another writer, or its cgroup could not be read
	WriterBytesLost uint64 // what those changed
	WritersUnjoined uint64 // cgroups looked up each time: no room to remember them
	WritersUnowned  uint64 // what the kernel's workers did for nobody known: counts for the root cgroup

	HeatTouched uint64 // files of layers counted, each once
	HeatStrange uint64 // files found to be none of the container's own layers

	HeatFilesLost  uint64 // touches of files that found no room
	HeatLayersLost uint64 // touches of layers that found no slot
	HeatUnreadable uint64 // the way from a file to its layer could not be followed

	// Missed is how often a program was to run while it ran on the same CPU, by the
	// object's name; the kernel leaves that out. It takes Linux 7.0, on which a
	// program can be preempted, or an interrupt. Before 6.1 nothing is left out.
	Missed map[string]uint64
}

// Count is how often something happened.
type Count struct {
	Event string `json:"event"` // a stable word
	Count uint64 `json:"count"`
}

// Events lists everything that is counted and is no loss.
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
		{"line_neared", c.Neared},
		{"line_rearmed", c.Rearmed},
		{"writer_change", c.WriterChanges},
		{"writer_unjoined", c.WritersUnjoined},
		{"writer_unowned", c.WritersUnowned},
		{"heat_file", c.HeatTouched},
		{"heat_stranger", c.HeatStrange},
	}
}

// Lost lists every kind of loss, those that did not happen included.
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

// missed sums what the kernel did not run of a set's programs.
func (s *set) missed() (n uint64, err error) {
	programs := slices.Collect(maps.Values(s.programs))
	if s.near != nil {
		programs = append(programs, s.near)
	}
	for _, program := range programs {
		stats, err := program.Stats()
		if err != nil {
			return 0, err
		}
		n += stats.RecursionMisses
	}
	return n, nil
}

// live are the sets that are attached, by the object's name. The caller holds mu.
func (p *Probes) live() map[string]*set {
	all := map[string]*set{objectLastUse: p.lastuse, objectWriters: p.writers, objectHeat: p.heat}
	for _, fsType := range fsTypes {
		all[objectUsage+fsType], all[writersName(fsType)] = p.usage[fsType].set, p.writersOn[fsType].set
	}
	maps.DeleteFunc(all, func(_ string, s *set) bool { return s == nil })
	return all
}

// Counters sums the counters of all objects over all CPUs. Those of an object
// that is not attached are 0.
func (p *Probes) Counters() (Counters, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := Counters{Missed: map[string]uint64{}}
	for name, s := range p.live() {
		n, err := s.missed()
		if err != nil {
			return Counters{}, fmt.Errorf("read statistics of %s: %w", name, err)
		}
		c.Missed[name] = n
	}
	if p.lastuse != nil {
		if p.table != nil {
			c.UnresolvedLost = p.table.lost
		}
		var cpus []lastuseLastuseCounters
		if err := p.lastuse.maps[lastuseMapLastuseCounts].Lookup(uint32(0), &cpus); err != nil {
			return Counters{}, fmt.Errorf("read counters of last use: %w", err)
		}
		for _, n := range cpus {
			c.Execs += n.Execs
			c.Exits += n.Exits
			c.Stamped += n.Stamped
			c.Unresolved += n.Unresolved
			c.UnresolvedLost += n.UnresolvedFull
			c.UnreadableLost += n.Unreadable
		}
	}
	for _, fsType := range fsTypes {
		u := p.usage[fsType]
		if u.set == nil {
			continue
		}
		var cpus []usageCounters
		if err := u.maps[mapUsageCounts].Lookup(uint32(0), &cpus); err != nil {
			return Counters{}, fmt.Errorf("read counters of usage on %s: %w", fsType, err)
		}
		for _, n := range cpus {
			c.Checked += n.Checked
			c.Summed += n.Summed
			c.Approximate += n.Approximate
			c.Raised += n.Raised
			c.Neared += n.Neared
			c.Rearmed += n.Rearmed
			c.CrossingsHeld += n.RingFull
		}
	}
	if p.writers != nil {
		var cpus []writersWritersCounters
		if err := p.writers.maps[writersMapWritersCounts].Lookup(uint32(0), &cpus); err != nil {
			return Counters{}, fmt.Errorf("read counters of writers: %w", err)
		}
		accounts, err := readAccounts(p.writers.maps)
		if err != nil {
			return Counters{}, err
		}
		for _, a := range accounts {
			c.WriterChanges += a.Changes
		}
		for _, n := range cpus {
			c.WritersLost += n.Lost
			c.WriterBytesLost += n.BytesLost
			c.WritersUnjoined += n.MembersFull
			c.WritersUnowned += n.Unowned
		}
	}
	if p.heat != nil {
		if err := p.countHeat(&c); err != nil {
			return Counters{}, err
		}
	}
	return c, nil
}

// ProgramStatus is one program for people and metrics.
type ProgramStatus struct {
	Object      string // lastuse, heat, usage_TYPE, writers, or writers_TYPE with the type of filesystem
	Name        string
	AttachPoint string // tracepoint or function
	Attached    bool
	Adopted     bool   // recording since before this process
	Reason      string // why not attached, or in what way less exact; "" if all is well
	Idle        string // why not attached although all is well; "" otherwise
	Waits       bool   // for the module of its filesystem; Reason says so
}

// Working is whether the program does its work: it is attached, or need not be.
func (s ProgramStatus) Working() bool { return s.Attached || s.Idle != "" }

// Status lists every program, attached or not, in a stable order.
func (p *Probes) Status() []ProgramStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := statusOf(objectLastUse, lastUseAttach, p.lastuse, p.lastuseErr, "")
	for _, fsType := range fsTypes {
		u := p.usage[fsType]
		all = append(all, statusOf(objectUsage+fsType, usageAttach[fsType], u.set, u.err, approximation(u.set))...)
		u.closely.status(all)
	}
	limit := hierarchy()
	all = append(all, statusOf(objectWriters, writersAttach[""], p.writers, p.writersErr, limit)...)
	for _, fsType := range writersTypes[1:] {
		w := p.writersOn[fsType]
		all = append(all, statusOf(writersName(fsType), writersAttach[fsType], w.set, w.err, limit)...)
	}
	for i := range all {
		if all[i].Name == writersBtrfsProgWritersPromised && all[i].Reason == "" {
			all[i].Reason = limitBtrfs
		}
	}
	return append(all, p.heatStatus()...)
}

// limitBtrfs is what the counting of writers on btrfs leaves out. One program
// says it for all.
const limitBtrfs = "of btrfs, metadata is not counted: about 1 KiB for a directory or small file"

func statusOf(object string, attach map[string]string, s *set, err error, limit string) []ProgramStatus {
	var out []ProgramStatus
	for _, name := range slices.Sorted(maps.Keys(attach)) {
		status := ProgramStatus{Object: object, Name: name, AttachPoint: attach[name], Reason: limit}
		switch {
		case err != nil:
			var absent *absentError
			status.Reason, status.Waits = err.Error(), errors.As(err, &absent)
		case s == nil:
			status.Reason = "closed"
		case s.links[name] != nil:
			status.Attached, status.Adopted = true, s.adopted
		case s.near != nil:
			status.Idle = "attached only while a filesystem is near its line"
		default:
			status.Idle = "does not fit this kernel, where another program does its work"
		}
		out = append(out, status)
	}
	return out
}

// approximation says whether lines work with the cautious bound.
func approximation(s *set) string {
	if s == nil || s.maps[mapCPUOffsets] == nil {
		return ""
	}
	var offsets cpuOffsets
	err := s.maps[mapCPUOffsets].Lookup(uint32(0), &offsets)
	if err != nil {
		return "cpu offsets: " + err.Error()
	}
	if offsets.Known == 0 {
		return "counters cannot be summed over CPUs: crossings come early"
	}
	return ""
}
