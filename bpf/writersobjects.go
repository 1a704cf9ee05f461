package bpf

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// Which program goes to which tracepoint, by type of filesystem; "" is what all
// need.
var writersAttach = map[string]map[string]string{
	"": {writersProgWritersRmdir: "cgroup_rmdir"},
	"ext4": {
		writersExt4ProgWritersReserve:  "ext4_da_reserve_space",
		writersExt4ProgWritersRelease:  "ext4_da_release_space",
		writersExt4ProgWritersRedeem:   "ext4_da_update_reserve_space",
		writersExt4ProgWritersAllocate: "ext4_allocate_blocks",
		writersExt4ProgWritersFree:     "ext4_free_blocks",
		writersExt4ProgWritersMake:     "ext4_allocate_inode",
		writersExt4ProgWritersRemove:   "ext4_free_inode",
	},
	"xfs": {
		writersXfsProgWritersTrans:        "xfs_trans_free",
		writersXfsProgWritersRoll:         "xfs_trans_roll",
		writersXfsProgWritersInsert:       "xfs_iext_insert",
		writersXfsProgWritersDrop:         "xfs_iext_remove",
		writersXfsProgWritersBefore:       "xfs_bmap_pre_update",
		writersXfsProgWritersAfter:        "xfs_bmap_post_update",
		writersXfsProgWritersInactive:     "xfs_inode_set_need_inactive",
		writersXfsProgWritersEofblocks:    "xfs_inode_set_eofblocks_tag",
		writersXfsProgWritersCowblocks:    "xfs_inode_set_cowblocks_tag",
		writersXfsProgWritersInactivating: "xfs_inode_inactivating",
		writersXfsProgWritersTruncate:     "xfs_itruncate_extents_start",
		writersXfsProgWritersCancel:       "xfs_reflink_cancel_cow_range",
		writersXfsProgWritersRemap:        "xfs_reflink_cow_remap_from",
		writersXfsProgWritersReclaimable:  "xfs_inode_set_reclaimable",
	},
	"btrfs": {
		writersBtrfsProgWritersPromised:    "update_bytes_may_use",
		writersBtrfsProgWritersReserving:   "btrfs_find_free_extent",
		writersBtrfsProgWritersWaited:      "btrfs_reserve_ticket",
		writersBtrfsProgWritersOutstanding: "btrfs_inode_mod_outstanding_extents",
		writersBtrfsProgWritersOrdered:     "btrfs_ordered_extent_add",
		writersBtrfsProgWritersUnwritten:   "btrfs_ordered_extent_remove",
		writersBtrfsProgWritersDropped:     "add_delayed_data_ref",
		writersBtrfsProgWritersFreed:       "btrfs_set_extent_bit",
		writersBtrfsProgWritersDone:        "run_delayed_ref_head",
		writersBtrfsProgWritersNew:         "btrfs_inode_new",
		writersBtrfsProgWritersEvict:       "btrfs_inode_evict",
	},
}

// writersTypes are the filesystems that can count, after what all need.
var writersTypes = []string{"", "ext4", "xfs", "btrfs"}

// writersName is how an object is called in pins and in Status.
func writersName(fsType string) string {
	if fsType == "" {
		return objectWriters
	}
	return objectWriters + "_" + fsType
}

// writersObject is writers.bpf.c, or with a type of filesystem
// writers_TYPE.bpf.c, with room for as many writers as they say themselves
// unless told otherwise.
func writersObject(fsType string, room uint32) (*object, error) {
	load := map[string]func() (*ebpf.CollectionSpec, error){
		"": loadWriters, "ext4": loadWritersExt4, "xfs": loadWritersXfs, "btrfs": loadWritersBtrfs,
	}
	spec, err := load[fsType]()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{writersMapWriters, writersMapMembers} {
		if room > 0 {
			spec.Maps[name].MaxEntries = room
		}
	}
	o := &object{
		name:   writersName(fsType),
		spec:   spec,
		attach: writersAttach[fsType],
		family: [][]byte{_WritersBytes, _WritersExt4Bytes, _WritersXfsBytes, _WritersBtrfsBytes},
	}
	if fsType == "" {
		o.maps = []string{writersMapWriters, writersMapMembers, writersMapDevices, writersMapWatching,
			writersMapAccounts, writersMapWritersCounts, writersMapBlank, writersMapOwners}
		return o, nil
	}
	o.modules, o.needs = []string{fsType}, fsType
	o.prepare = map[string]func(*ebpf.CollectionSpec, *btf.Cache) error{
		"ext4": prepareWritersExt4, "btrfs": prepareWritersBtrfs,
	}[fsType]
	return o, nil
}

// prepareWritersExt4 tells the programs what their tracepoint passes.
func prepareWritersExt4(spec *ebpf.CollectionSpec, types *btf.Cache) error {
	params, err := tracepointParams(types, "ext4_da_reserve_space", "ext4")
	if err != nil {
		return err
	}
	return spec.Variables[writersExt4VarReserveHasCount].Set(params >= 2)
}

// prepareWritersBtrfs does the same; and one tracepoint has got another name.
func prepareWritersBtrfs(spec *ebpf.CollectionSpec, types *btf.Cache) error {
	reference, err := tracepointParams(types, "add_delayed_data_ref", "btrfs")
	if err != nil {
		return err
	}
	program := spec.Programs[writersBtrfsProgWritersReserving]
	search, err := tracepointParams(types, program.AttachTo, "btrfs")
	if errors.Is(err, btf.ErrNotFound) {
		program.AttachTo = strings.TrimPrefix(program.AttachTo, "btrfs_")
		search, err = tracepointParams(types, program.AttachTo, "btrfs")
	}
	return errors.Join(err,
		spec.Variables[writersBtrfsVarReferenceInParts].Set(reference > 2),
		spec.Variables[writersBtrfsVarSearchInParts].Set(search > 2))
}

// loadWriters brings up what the objects of the filesystems need.
func (p *Probes) loadWriters(types *btf.Cache) error {
	o, err := writersObject("", p.options.maxWriters)
	if err != nil {
		return err
	}
	p.writers, err = p.open(o, types)
	if p.writersErr = classify(err); err != nil {
		p.say("writers are not counted", p.writersErr)
	}
	return nil
}

// loadWritersOn brings up the counting on one type of filesystem.
func (p *Probes) loadWritersOn(types *btf.Cache, fsType string) error {
	if p.writers == nil {
		p.writersOn[fsType] = usageSet{err: p.writersErr}
		return nil
	}
	o, err := writersObject(fsType, p.options.maxWriters)
	if err != nil {
		return err
	}
	o.base = p.writers
	s, err := p.open(o, types)
	if err = classify(err); err != nil {
		p.say("writers are not counted", err, "type", fsType)
	}
	p.writersOn[fsType] = usageSet{set: s, err: err}
	return nil
}

// CanCountWriters reports whether filesystems of this type can count. It stays
// as it is until CatchUp.
func (p *Probes) CanCountWriters(fsType string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writersOn[fsType].set != nil
}

// carryWriters brings the counts of an earlier set into this one. Both count
// while it runs, so the earlier figures, which have everything, replace those
// of this set: lost is what a cgroup does between the reading of its entry and
// the writing of it.
func carryWriters(s *set, dir string) error {
	if err := trustedSet(dir); err != nil {
		return err
	}
	old := map[string]*ebpf.Map{}
	defer func() {
		for _, m := range old {
			m.Close()
		}
	}()
	for _, name := range []string{writersMapWriters, writersMapAccounts, writersMapDevices} {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, "maps", name), nil)
		if err != nil {
			return fmt.Errorf("open map %s: %w", name, err)
		}
		old[name] = m
		if m.Type() != s.maps[name].Type() || m.KeySize() != s.maps[name].KeySize() || m.ValueSize() != s.maps[name].ValueSize() {
			return fmt.Errorf("map %s: %w", name, errForeign)
		}
	}
	var dev uint64
	var one uint32
	devices := old[writersMapDevices].Iterate()
	for devices.Next(&dev, &one) {
		if err := s.maps[writersMapDevices].Put(dev, one); err != nil {
			return fmt.Errorf("write device: %w", err)
		}
	}
	if err := errors.Join(devices.Err(), closeAccounts(s.maps[writersMapWatching])); err != nil {
		return err
	}
	writers, err := readWriters(old)
	if err != nil {
		return err
	}
	for id, w := range writers {
		if err := s.maps[writersMapWriters].Put(id, w); err != nil {
			return fmt.Errorf("write writer: %w", mapFull(err))
		}
	}
	return nil
}

// inheritWriters takes over what earlier sets counted, once their successors
// are attached. What cannot be read is only missing from a figure for people,
// so it is said and no more.
func (p *Probes) inheritWriters() error {
	if p.writers == nil {
		return nil
	}
	for _, fsType := range writersTypes {
		o, err := writersObject(fsType, p.options.maxWriters)
		if err != nil {
			return err
		}
		dirs, err := p.pins.outdated(o)
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			if fsType != "" {
				break // its counts are in maps of the base
			}
			if err := carryWriters(p.writers, dir); err != nil {
				p.log.Warn("earlier counts of writers could not be read", "dir", dir, "reason", err)
			}
		}
		p.removeEarlier(p.pins, dirs)
	}
	return nil
}

// errNoWriters is why nothing is counted if nobody asked for it.
var errNoWriters = errors.New("switched off")

// dropWriters ends what an earlier process began.
func (p *Probes) dropWriters() error {
	p.writersErr = errNoWriters
	for _, fsType := range writersTypes {
		if fsType != "" {
			p.writersOn[fsType] = usageSet{err: errNoWriters}
		}
		dirs, err := filepath.Glob(filepath.Join(p.pins.dir, writersName(fsType)+"-*"))
		if err != nil {
			return fmt.Errorf("find earlier counts of writers: %w", err)
		}
		p.removeEarlier(p.pins, dirs)
	}
	return nil
}
