package bpf

import (
	"errors"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

const objectWriters = "writers" // for one type of filesystem followed by "_" and the type

// writersAttach has the tracepoint of each program, by type of filesystem; ""
// is the shared object.
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
		writersBtrfsProgWritersDropping:    "add_delayed_ref_head",
		writersBtrfsProgWritersDropped:     "add_delayed_data_ref",
		writersBtrfsProgWritersFreed:       "btrfs_set_extent_bit",
		writersBtrfsProgWritersDone:        "run_delayed_ref_head",
		writersBtrfsProgWritersNew:         "btrfs_inode_new",
		writersBtrfsProgWritersEvict:       "btrfs_inode_evict",
	},
}

// writersTypes are the shared object, "", and then the filesystems that can
// count.
var writersTypes = []string{"", "ext4", "xfs", "btrfs"}

// writersName returns the name of an object in pins and in Status.
func writersName(fsType string) string {
	if fsType == "" {
		return objectWriters
	}
	return objectWriters + "_" + fsType
}

// writersObject returns writers.bpf.c for "", or writers_TYPE.bpf.c for a type
// of filesystem. room is how many writers fit; 0 keeps the programs' default.
func writersObject(fsType string, room uint32) (*object, error) {
	spec, err := writersLoad[fsType]()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{writersMapWriters, writersMapMembers} {
		if room > 0 {
			spec.Maps[name].MaxEntries = room
		}
	}
	o := &object{
		name:    writersName(fsType),
		spec:    spec,
		attach:  writersAttach[fsType],
		needs:   fsType,
		prepare: writersPrepare[fsType],
		family:  [][]byte{_WritersBytes, _WritersExt4Bytes, _WritersXfsBytes, _WritersBtrfsBytes},
	}
	if fsType == "" {
		o.maps = []string{writersMapWriters, writersMapMembers, writersMapDevices, writersMapWatching,
			writersMapAccounts, writersMapWritersCounts, writersMapBlank, writersMapOwners}
	}
	return o, nil
}

var (
	writersLoad = map[string]func() (*ebpf.CollectionSpec, error){
		"": loadWriters, "ext4": loadWritersExt4, "xfs": loadWritersXfs, "btrfs": loadWritersBtrfs,
	}
	writersPrepare = map[string]func(*ebpf.CollectionSpec, *btf.Cache) error{
		"ext4": prepareWritersExt4, "btrfs": prepareWritersBtrfs,
	}
)

// prepareWritersExt4 sets whether ext4_da_reserve_space passes the number of
// clusters.
func prepareWritersExt4(spec *ebpf.CollectionSpec, types *btf.Cache) error {
	params, err := tracepointParams(types, "ext4_da_reserve_space", "ext4")
	if err != nil {
		return err
	}
	return spec.Variables[writersExt4VarReserveHasCount].Set(params >= 2)
}

// prepareWritersBtrfs sets how two tracepoints pass their arguments. One of the
// two has another name on some kernels, without btrfs_.
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
