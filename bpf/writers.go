package bpf

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// writers counts what each container takes and gives back on watched filesystems. Most
// changes happen while the task that causes them runs, at the latest in its exit.
// Write-back later turns promises into blocks, which is skipped. So the figures are
// those of statfs, except for the blocks of extent trees.
//
// A deletion counts for the task that deletes, whoever wrote the file. There is one
// exception: a file that is deleted during its write-back, while another task waits for
// that in sync(2) or syncfs(2). The file ends when the waiting task releases it
// (wait_sb_inodes), so its deletion counts for that task.
//
//   - ext4: promises for delayed allocation, other allocations, promises taken back
//     (ext4_da_update_reserve_space; ext4_es_remove_extent, fs/ext4/extents_status.c),
//     and freed blocks.
//   - xfs: the sums of each transaction (xlog_cil_commit), and delayed extents as they
//     are added and removed. Workers free the blocks of deleted files, and take back
//     preallocated ones. The task that leaves an inode to a worker is noted
//     (headers/owners.h) in a table that can overflow. Then the change counts for the
//     root cgroup (Counters.WritersUnowned). Shared extents take nothing, and are given
//     back by the task that drops them last. A writer on a full filesystem can take back
//     what others have preallocated; that counts as Shrunk for the writer. A realtime
//     device is not counted.
//   - btrfs: data, from the promise to a writer until its extent is freed. After a sync
//     that is the data that btrfs(5) calls used; before a sync it is ahead of that. A
//     freed extent counts for the last task that dropped a reference to it, at the
//     commit that frees it. If a worker drops overwritten data, that counts for the
//     cgroup that wrote. Metadata is shared and mostly written by the commit, so it is
//     not counted: 820 KB for 300 directories and 300 tiny files, both copies included.
//     A container whose files are smaller than about 25 KB is off by more than 5 %.
//
// Inodes are those that statfs shows as used; on btrfs, files created and removed.
//
// A task's cgroup in the v2 hierarchy identifies its container. Cgroups inside one that
// bears a generated container id count for that one. If a cgroup is removed
// (cgroup_rmdir), its counts and its path are kept until user space has read and
// forgotten them. Changes are added up per CPU, and booked when another cgroup or
// filesystem has its turn. If a worker closes a file last (asynchronous I/O, loop
// devices), that counts for the root cgroup. Files that a runtime deletes with a
// container count for the runtime.
type writers struct {
	pins *pins
	off  bool
	room uint32 // for writers and their members; 0: as the programs have it

	mu sync.Mutex            // guards all below
	on map[string]attachment // by type of filesystem; "" is the shared object
}

func (w *writers) parts() (all []part) {
	if w.off {
		return nil
	}
	for _, fsType := range writersTypes {
		load := func(types *btf.Cache) error { return w.load(types, fsType) }
		all = append(all, part{writersName(fsType), w.on[fsType].err, load})
	}
	return all
}

// load brings up the counting on one type of filesystem, or the shared object for "".
func (w *writers) load(types *btf.Cache, fsType string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	base := w.on[""]
	if fsType != "" && base.set == nil {
		w.on[fsType] = base
		return nil
	}
	o, err := writersObject(fsType, w.room)
	if err != nil {
		return err
	}
	if fsType != "" {
		o.base = base.set
	}
	s, err := w.pins.open(o, types)
	if err = classify(err); err != nil {
		w.pins.warn("writers are not counted", err, "object", o.name)
	}
	w.on[fsType] = attachment{s, err}
	return nil
}

// takeOver copies the counts of earlier sets, once their successors are attached, and
// removes the sets. If the counting is switched off it only removes them. Counts that
// cannot be read are missing only from a figure for display, so that is logged and is no
// error.
func (w *writers) takeOver() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	base := w.on[""].set
	for _, fsType := range writersTypes {
		if w.off {
			w.on[fsType] = attachment{err: errSwitchedOff}
			if err := w.pins.removeAll(writersName(fsType)); err != nil {
				return err
			}
			continue
		}
		if base == nil {
			return nil
		}
		o, err := writersObject(fsType, w.room)
		if err != nil {
			return err
		}
		dirs, err := w.pins.outdated(o)
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			if fsType != "" {
				break // its counts are in maps of the base
			}
			if err := carryWriters(base, dir); err != nil {
				w.pins.log.Warn("earlier counts of writers could not be read", "dir", dir, "reason", err)
			}
		}
		w.pins.removeSets(dirs)
	}
	return nil
}

func (w *writers) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, on := range w.on {
		errs = append(errs, on.close())
	}
	w.on = nil
	return errors.Join(errs...)
}

// limitBtrfs describes what the counting of writers on btrfs leaves out. It is the reason of
// one program only.
const limitBtrfs = "of btrfs, metadata is not counted: about 1 KiB for a directory or small file"

func (w *writers) status() (all []ProgramStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := hierarchy()
	for _, fsType := range writersTypes {
		all = append(all, w.on[fsType].statusOf(writersName(fsType), writersAttach[fsType], limit)...)
	}
	for i := range all {
		if all[i].Name == writersBtrfsProgWritersPromised && all[i].Reason == "" {
			all[i].Reason = limitBtrfs
		}
	}
	return all
}

func (w *writers) count(c *Counters) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	base := w.on[""]
	cpus, err := countersOf[writersWritersCounters](base, objectWriters, writersMapWritersCounts, c)
	if err != nil || base.set == nil {
		return err
	}
	for _, fsType := range writersTypes[1:] {
		if on := w.on[fsType]; on.set != nil {
			if c.Missed[writersName(fsType)], err = on.missed(); err != nil {
				return fmt.Errorf("read statistics of %s: %w", writersName(fsType), err)
			}
		}
	}
	accounts, err := readAccounts(base.maps)
	if err != nil {
		return err
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
	return nil
}

// CanCountWriters reports whether writers can be counted on filesystems of this type.
// Only CatchUp changes the answer.
func (w *writers) CanCountWriters(fsType string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fsType != "" && w.on[fsType].set != nil
}

// base returns the shared object's set, which has the maps of all.
func (w *writers) base() (*set, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if base := w.on[""]; base.set == nil {
		return nil, notAttached(base.err)
	}
	return w.on[""].set, nil
}

// hierarchy returns why writers cannot be attributed to cgroups; "" if they can.
func hierarchy() string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "read mounts: " + err.Error()
	}
	for line := range strings.Lines(string(mounts)) {
		// "… - type source options"
		if _, fs, ok := strings.Cut(line, " - "); ok && strings.HasPrefix(fs, "cgroup2 ") {
			return ""
		}
	}
	return "no cgroup v2 hierarchy is mounted: every process counts for its root"
}

// Writer is what the processes of one cgroup took and gave back on the watched
// filesystems since the cgroup was created, or since the programs were attached. A
// container's own sub-groups count for it if its name bears a generated id (64
// hexadecimal digits); otherwise they are writers of their own.
//
// A deletion counts for the process that deletes, so Shrunk can be more than Grown.
type Writer struct {
	Cgroup  uint64 // id in the v2 hierarchy
	Grown   uint64 // bytes
	Shrunk  uint64 // bytes
	Made    uint64 // inodes
	Removed uint64 // inodes

	// EndedNS is when the cgroup was removed, by CLOCK_BOOTTIME; 0 while it exists. Path
	// is set only after that. It starts at the root of the hierarchy; users of the node
	// choose it. A living cgroup is found by its directory.
	EndedNS uint64
	Path    string
}

// CountWriters sets the filesystems that count, by s_dev; all others stop counting.
// Earlier counts are kept.
func (w *writers) CountWriters(devs ...uint64) error {
	s, err := w.base()
	if err != nil {
		return fmt.Errorf("count writers: %w", err)
	}
	devices := s.maps[writersMapDevices]
	for _, dev := range devs {
		if err := devices.Put(dev, uint32(1)); err != nil {
			return fmt.Errorf("count writers of %s: %w", deviceName(dev), mapFull(err))
		}
	}
	counting, err := readHash[uint64, uint32](devices)
	if err != nil {
		return fmt.Errorf("count writers: %w", err)
	}
	for dev := range counting {
		if slices.Contains(devs, dev) {
			continue
		}
		if err := deleteKey(devices, dev); err != nil {
			return fmt.Errorf("stop counting writers of %s: %w", deviceName(dev), err)
		}
	}
	return closeAccounts(s.maps[writersMapWatching])
}

// closeAccounts makes every CPU look its filesystem up again at its next change.
func closeAccounts(watching *ebpf.Map) error {
	var generation uint64
	err := watching.Lookup(uint32(0), &generation)
	if err == nil {
		err = watching.Put(uint32(0), generation+1)
	}
	if err != nil {
		return fmt.Errorf("close accounts: %w", err)
	}
	return nil
}

// Writers returns every cgroup that wrote, in no order, including those that ended and
// were not forgotten.
func (w *writers) Writers() ([]Writer, error) {
	s, err := w.base()
	if err != nil {
		return nil, fmt.Errorf("read writers: %w", err)
	}
	kernel, err := readWriters(s.maps)
	if err != nil {
		return nil, fmt.Errorf("read writers: %w", err)
	}
	all := make([]Writer, 0, len(kernel))
	for id, one := range kernel {
		all = append(all, Writer{
			Cgroup: id, Grown: one.Grown, Shrunk: one.Shrunk, Made: one.Made, Removed: one.Removed,
			EndedNS: one.EndedNs, Path: text(one.Path[:]),
		})
	}
	return all, nil
}

// ForgetWriters drops writers that have ended, to make room. A cgroup id is never
// reused, so no other writer can be dropped.
func (w *writers) ForgetWriters(ended ...Writer) error {
	s, err := w.base()
	if err != nil {
		return fmt.Errorf("forget writers: %w", err)
	}
	for _, one := range ended {
		if one.EndedNS == 0 {
			return fmt.Errorf("forget writers: cgroup %d has not ended", one.Cgroup)
		}
		if err := deleteKey(s.maps[writersMapWriters], one.Cgroup); err != nil {
			return fmt.Errorf("forget writer %d: %w", one.Cgroup, err)
		}
	}
	return nil
}
