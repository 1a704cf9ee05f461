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
// of it happens while the task that causes it runs, at the latest in its exit. What
// write-back does with promises later is skipped, so the figures are those of statfs
// but for the blocks of extent trees. Who deletes shrinks, whoever wrote. A file that is
// deleted while it is written back, and while another task waits for that in sync(2) or
// syncfs(2), ends when that task lets it go (wait_sb_inodes): the other task shrinks.
//
//   - ext4: promises for delayed allocation, other allocations, promises taken back
//     (ext4_da_update_reserve_space; ext4_es_remove_extent, fs/ext4/extents_status.c),
//     blocks freed.
//   - xfs: what each transaction sums up (xlog_cil_commit), and delayed extents as they
//     come and go. Workers free the blocks of deleted files, and take back what was
//     preallocated. The task that leaves an inode to them is noted (headers/owners.h)
//     in a table that can overflow: then it counts for the root cgroup
//     (Counters.WritersUnowned). What is shared takes nothing, and comes back by
//     whoever drops it last. A writer on a full filesystem can take back what others
//     have preallocated; that shrinks the writer. A realtime device is not counted.
//   - btrfs: data, from the promise to a writer until its extent is freed, as the data
//     that btrfs(5) calls used after a sync; before a sync it is ahead of that. The
//     last to drop a reference to an extent shrinks, at the commit that frees it. A
//     worker that drops what was overwritten does so for who wrote. Metadata is shared
//     and mostly written by the commit, so it is not counted: 820 KB for 300
//     directories and 300 tiny files, two copies of it. A container whose files are
//     smaller than about 25 KB is off by more than 5 %.
//
// Inodes are those that statfs shows as used, on btrfs files made and files gone.
//
// The task's cgroup in the v2 hierarchy tells the container. Cgroups inside one that
// bears a generated container id count for it. A cgroup that ends (cgroup_rmdir) leaves
// its counts and its path until user space has read and forgotten them. Changes are
// added up per CPU and booked when another cgroup or filesystem has its turn. The last
// close by a worker (asynchronous I/O, loop devices) counts for the root cgroup. What a
// runtime deletes with a container counts for the runtime.
type writers struct {
	pins *pins
	off  bool
	room uint32 // for writers and their members; 0: as the programs have it

	mu sync.Mutex            // guards all below
	on map[string]attachment // by type of filesystem; "" is what all need
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

// load brings up the counting on one type of filesystem, or what all need.
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

// takeOver goes on with what earlier sets counted, once their successors are
// attached, or ends it. What cannot be read is only missing from a figure for
// people, so it is reported and no more.
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

// limitBtrfs is what the counting of writers on btrfs leaves out. One program
// says it for all.
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

// CanCountWriters reports whether filesystems of this type can count. It stays
// as it is until CatchUp.
func (w *writers) CanCountWriters(fsType string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fsType != "" && w.on[fsType].set != nil
}

// base has the maps of all.
func (w *writers) base() (*set, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if base := w.on[""]; base.set == nil {
		return nil, notAttached(base.err)
	}
	return w.on[""].set, nil
}

// hierarchy says whether writers can be attributed to cgroups at all.
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
// filesystems since the cgroup came, or since the programs were attached.
// A container's own sub-groups count for it if its name bears a generated id
// (64 hexadecimal digits); else they are writers of their own.
//
// Who deletes what another one wrote shrinks: Shrunk can be more than Grown.
type Writer struct {
	Cgroup  uint64 // id in the v2 hierarchy
	Grown   uint64 // bytes
	Shrunk  uint64 // bytes
	Made    uint64 // inodes
	Removed uint64 // inodes

	// EndedNS is when the cgroup was removed, by CLOCK_BOOTTIME; 0 while it is
	// there. Only then Path is set, from the root of the hierarchy: of a living
	// cgroup, its directory tells. Path is what people on the node chose.
	EndedNS uint64
	Path    string
}

// CountWriters says which filesystems count, by s_dev; others no longer do.
// What was counted stays.
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

// closeAccounts makes every CPU look its filesystem up again.
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

// Writers returns every cgroup that wrote, in no order, those that ended and
// were not forgotten included.
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

// ForgetWriters makes room by dropping writers that have ended. A cgroup id is
// not given twice, so nothing else can be hit.
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
