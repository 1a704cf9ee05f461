package bpf

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// object is one compiled .bpf.c with its sizes settled, ready to load.
type object struct {
	name    string
	code    []byte
	spec    *ebpf.CollectionSpec
	maps    []string          // those user space needs, hence pins
	attach  map[string]string // program to tracepoint, or to the function of a kprobe
	modules []string          // whose types the programs look into, where they are modules

	// far and near name two programs of attach, "" if there are none. The first
	// watches from afar, on kernels where that can be done, and then the second
	// is attached only while it is needed, else always.
	far, near string
	needs     string // the filesystem without which there is nothing to see

	// base is the set whose maps it uses in place of its own of the same name.
	base *set
	// family is the code of all objects with the same base: they count into the
	// same maps, so another version of one makes all of them another version.
	family [][]byte

	// prepare sets constants that depend on the kernel; start runs after
	// loading, before anything is attached. Either may be nil.
	prepare func(*ebpf.CollectionSpec, *btf.Cache) error
	start   func(*ebpf.Collection)

	reuse map[string]*ebpf.Map // maps of an earlier set, to go on with
}

// The objects' names, in pins and in Status.
const (
	objectLastUse = "lastuse"
	objectUsage   = "usage_"  // and the type of filesystem
	objectWriters = "writers" // and, for what a type of filesystem does, "_" and the type
)

// Which program goes to which tracepoint.
var (
	lastUseAttach = map[string]string{
		lastuseProgLastuseExec: "sched_process_exec",
		lastuseProgLastuseExit: "sched_process_exit",
	}
	usageAttach = map[string]map[string]string{
		"ext4": {
			usageExt4ProgUsageDirty:    "writeback_dirty_folio",
			usageExt4ProgUsageReserve:  "ext4_da_reserve_space",
			usageExt4ProgUsageAllocate: "ext4_allocate_blocks",
			usageExt4ProgUsageInode:    "ext4_allocate_inode",
			usageExt4ProgUsageGiveBack: "ext4_free_blocks",
		},
		"xfs": {
			usageXfsProgUsageTrans:    "xfs_trans_free",
			usageXfsProgUsageDelalloc: "xfs_iomap_alloc",
		},
		"btrfs": {
			usageBtrfsProgUsagePromise: "update_bytes_may_use",
			usageBtrfsProgUsageCommit:  "btrfs_transaction_commit",
		},
	}
)

// objects lists them all.
func objects(maxLayers uint32) ([]*object, error) {
	lastuse, err1 := lastUseObject(maxLayers)
	all, errs := []*object{lastuse}, []error{err1}
	for _, fsType := range fsTypes {
		usage, err := usageObject(fsType, nearBlocks)
		all, errs = append(all, usage), append(errs, err)
	}
	for _, fsType := range writersTypes {
		writers, err := writersObject(fsType, 0)
		all, errs = append(all, writers), append(errs, err)
	}
	heat, err := heatObject(HeatByPages, heatSize{})
	return append(all, heat), errors.Join(append(errs, err)...)
}

// lastUseObject is lastuse.bpf.c with room for maxLayers layers.
func lastUseObject(maxLayers uint32) (*object, error) {
	spec, err := loadLastuse()
	if err != nil {
		return nil, err
	}
	spec.Maps[lastuseMapLayers].MaxEntries = maxLayers
	spec.Maps[lastuseMapStamps].MaxEntries = maxLayers
	return &object{
		name:    "lastuse",
		code:    _LastuseBytes,
		spec:    spec,
		maps:    []string{lastuseMapLayers, lastuseMapStamps, lastuseMapUnresolved, lastuseMapLastuseCounts},
		attach:  lastUseAttach,
		modules: []string{"overlay"},
		needs:   "overlay",
	}, nil
}

// layout names everything that must be the same for pins to be adopted. What
// depends on the kernel alone need not be in it: pins do not outlive a boot.
func (o *object) layout() string {
	h := sha256.New()
	h.Write(o.code)
	for _, code := range o.family {
		h.Write(code)
	}
	for _, name := range slices.Sorted(maps.Keys(o.spec.Maps)) {
		fmt.Fprintf(h, "\n%s %d", name, o.spec.Maps[name].MaxEntries)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// load puts the object's maps and programs into the kernel.
func (o *object) load(types *btf.Cache) (*ebpf.Collection, error) {
	if _, err := types.Kernel(); err != nil {
		return nil, fmt.Errorf("read BTF of the kernel: %w", err)
	}
	spec := o.spec.Copy()
	if o.prepare != nil {
		if err := o.prepare(spec, types); err != nil {
			return nil, err
		}
	}
	opts := ebpf.CollectionOptions{Cache: types, MapReplacements: o.reuse}
	if o.base != nil {
		opts.MapReplacements = maps.Clone(o.base.maps)
		maps.DeleteFunc(opts.MapReplacements, func(name string, _ *ebpf.Map) bool { return spec.Maps[name] == nil })
	}
	for _, name := range o.modules {
		module, err := types.Module(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // built in, or not there: attaching or the relocation will tell
		}
		if err != nil {
			return nil, fmt.Errorf("read BTF of module %s: %w", name, err)
		}
		opts.Programs.ExtraRelocationTargets = append(opts.Programs.ExtraRelocationTargets, module)
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, opts)
	if errors.Is(err, ebpf.ErrNotSupported) && len(opts.Programs.ExtraRelocationTargets) > 0 && lacks(unix.CAP_SYS_ADMIN) {
		// The types of a module, which a program is attached by, are opened by id
		// (bpf_btf_get_fd_by_id, kernel/bpf/syscall.c). Refused that, it looks as if
		// the tracepoint was not there.
		err = fmt.Errorf("open types of modules: %w: %w", unix.EPERM, err)
	}
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	if o.start != nil {
		o.start(coll)
	}
	return coll, nil
}

// attachIn is what of attach is attached as soon as coll is loaded, and stays.
func (o *object) attachIn(coll *ebpf.Collection) map[string]string {
	attach := maps.Clone(o.attach)
	switch {
	case o.near == "":
	case coll.Programs[o.far] == nil: // not for this kernel
		delete(attach, o.far)
	default:
		delete(attach, o.near)
	}
	return attach
}

// hasFunction reports whether the kernel or the module has a function.
func hasFunction(types *btf.Cache, name, module string) (bool, error) {
	spec, err := types.Kernel()
	if err != nil {
		return false, err
	}
	var found *btf.Func
	if err = spec.TypeByName(name, &found); errors.Is(err, btf.ErrNotFound) {
		if spec, err = types.Module(module); err == nil {
			err = spec.TypeByName(name, &found)
		}
	}
	if errors.Is(err, btf.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// tracepointParams counts the arguments of a tracepoint of the kernel or of
// the module. The prototype has one more, for the tracer's own data.
func tracepointParams(types *btf.Cache, name, module string) (int, error) {
	spec, err := types.Kernel()
	if err != nil {
		return 0, err
	}
	var def *btf.Typedef
	err = spec.TypeByName("btf_trace_"+name, &def)
	if errors.Is(err, btf.ErrNotFound) {
		if spec, err = types.Module(module); err == nil {
			err = spec.TypeByName("btf_trace_"+name, &def)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("find tracepoint %s: %w", name, err)
	}
	if pointer, ok := def.Type.(*btf.Pointer); ok {
		if proto, ok := pointer.Target.(*btf.FuncProto); ok {
			return len(proto.Params) - 1, nil
		}
	}
	return 0, fmt.Errorf("tracepoint %s has no prototype: %w", name, btf.ErrNotFound)
}
