package bpf

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/cilium/ebpf/btf"
)

const objectLastUse = "lastuse"

// lastUseAttach has the tracepoint of each program.
var lastUseAttach = map[string]string{
	lastuseProgLastuseExec: "sched_process_exec",
	lastuseProgLastuseExit: "sched_process_exit",
}

// lastuse records when images were last used. At every exec and at the end of every
// process, lastuse.bpf.c looks at the process's root. If that is an overlayfs, its
// topmost lower directory, the unpacked last layer, identifies the image, and the
// layer's stamp is set to now. User space sets which directories are layers and reads
// the stamps when it needs them; the programs send nothing. It does not matter which
// files a process reads. A process whose root is not an overlayfs is not recorded.
//
// The end of a container's use is the exit of its last process (do_exit,
// kernel/exit.c). The removal of its cgroup would need a table of live containers,
// which can fill, and a cgroup v2 hierarchy, which not every node has.
//
// A slot of the stamps array is given to another layer only after every program that
// may have looked it up for the old one has ended.
type lastuse struct {
	pins      *pins
	maxLayers uint32

	mu sync.Mutex // guards all below
	attachment
	table *layerTable // nil if not attached
	lost  bool
}

// lastUseObject returns lastuse.bpf.c with room for maxLayers layers.
func lastUseObject(maxLayers uint32) (*object, error) {
	spec, err := loadLastuse()
	if err != nil {
		return nil, err
	}
	spec.Maps[lastuseMapLayers].MaxEntries = maxLayers
	spec.Maps[lastuseMapStamps].MaxEntries = maxLayers
	return &object{
		name:   objectLastUse,
		code:   _LastuseBytes,
		spec:   spec,
		maps:   []string{lastuseMapLayers, lastuseMapStamps, lastuseMapUnresolved, lastuseMapLastuseCounts},
		attach: lastUseAttach,
		needs:  "overlay",
	}, nil
}

func (l *lastuse) parts() []part {
	return []part{{objectLastUse, l.err, l.load}}
}

func (l *lastuse) load(types *btf.Cache) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	o, err := lastUseObject(l.maxLayers)
	if err != nil {
		return err
	}
	if l.set, err = l.pins.open(o, types); err == nil {
		err = l.inherit(o)
	}
	if l.err = classify(err); err != nil {
		l.pins.log.Warn("last use is not recorded", "reason", l.err)
	}
	return nil
}

// inherit builds the table of layers from this set and from earlier sets.
func (l *lastuse) inherit(o *object) error {
	log := l.pins.log
	table, damaged, err := newLayerTable(l.set)
	if err != nil {
		return err
	}
	l.table = table
	if damaged > 0 {
		l.lost = true
		log.Warn("dropped layers with invalid slots", "count", damaged)
	}
	dirs, err := l.pins.outdated(o)
	if err != nil {
		l.lost = true
		log.Warn("earlier stamps could not be read", "reason", err)
	}
	if len(dirs) > 0 {
		// A run of an earlier program that began before these were attached may be
		// about to write a stamp that only it has.
		if err := waitForPrograms(); err != nil {
			l.lost = true
			log.Warn("earlier programs may still be running", "reason", err)
		}
	}
	for _, dir := range dirs {
		if err := carryStamps(table, l.set, dir); err != nil {
			l.lost = true
			log.Warn("earlier stamps could not be read", "dir", dir, "reason", err)
		}
	}
	l.pins.removeSets(dirs)
	return nil
}

func (l *lastuse) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table = nil
	return l.attachment.close()
}

func (l *lastuse) status() []ProgramStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.statusOf(objectLastUse, lastUseAttach, "")
}

func (l *lastuse) count(c *Counters) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	cpus, err := countersOf[lastuseLastuseCounters](l.attachment, objectLastUse, lastuseMapLastuseCounts, c)
	for _, n := range cpus {
		c.Execs += n.Execs
		c.Exits += n.Exits
		c.Stamped += n.Stamped
		c.Unresolved += n.Unresolved
		c.UnresolvedLost += n.UnresolvedFull
		c.UnreadableLost += n.Unreadable
	}
	if l.table != nil {
		c.UnresolvedLost += l.table.lost
	}
	return err
}

// ask calls do with the table of layers, if the programs are attached. what begins
// the error.
func (l *lastuse) ask(what string, do func(*layerTable) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := notAttached(l.err)
	if l.table != nil {
		err = do(l.table)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Track starts stamping the uses of a layer. If the layer was used before it was
// tracked, its first stamp is that use. Tracking a layer again changes nothing.
// ErrFull if MaxLayers are tracked.
//
// A directory that was removed and created again can have the same Key. Untrack it in
// between, or the stamp of the old directory is treated as the new one's.
func (l *lastuse) Track(k Key) error {
	return l.ask("track layer", func(t *layerTable) error { return k.wrap(t.track(k, 0)) })
}

// Untrack forgets a layer and everything known about its use.
func (l *lastuse) Untrack(k Key) error {
	return l.ask("untrack layer", func(t *layerTable) error { return k.wrap(t.untrack(k)) })
}

// LastUse returns when a tracked layer was last used, by CLOCK_BOOTTIME. ok is false
// if the layer was not used or is not tracked.
func (l *lastuse) LastUse(k Key) (bootNS uint64, ok bool, err error) {
	err = l.ask("last use", func(t *layerTable) error {
		bootNS, err = t.lastUse(k)
		return k.wrap(err)
	})
	return bootNS, bootNS != 0, err
}

// LastUses returns the last use of every tracked layer that was used, by
// CLOCK_BOOTTIME, with two system calls in all.
func (l *lastuse) LastUses() (uses map[Key]uint64, err error) {
	err = l.ask("last uses", func(t *layerTable) error {
		uses, err = t.lastUses()
		return err
	})
	return uses, err
}

// Tracked returns the tracked layers, including those that an earlier process
// tracked.
func (l *lastuse) Tracked() []Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.table == nil {
		return nil
	}
	return slices.Collect(maps.Keys(l.table.slots))
}

// Purge makes room among the noted uses of untracked layers: it forgets those from
// before a CLOCK_BOOTTIME.
func (l *lastuse) Purge(before uint64) error {
	return l.ask("purge", func(t *layerTable) error { return t.purge(before) })
}

// Lost reports whether stamps of an earlier run existed but could not be read. Then a
// missing stamp does not prove that an image is unused: every image counts as recent.
func (l *lastuse) Lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}
