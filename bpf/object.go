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
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// object is one compiled .bpf.c with its sizes settled, ready to load.
type object struct {
	name   string
	code   []byte
	spec   *ebpf.CollectionSpec
	maps   []string          // those that user space needs; they are pinned
	attach map[string]string // program to tracepoint, or to the function of a kprobe

	// far and near name two programs of attach, "" if there are none. Where the kernel
	// supports the far program, it is always attached, and the near one only while it is
	// needed. Elsewhere the near program is always attached.
	far, near string
	// needs is the filesystem that the programs observe, "" if there is none. If it is a
	// module, the programs need its types, and wait until it is loaded.
	needs string

	// base is the set whose maps the object uses in place of its own of the same name.
	base *set
	// family is the code of all objects with the same base. They count into the same maps,
	// so another version of one makes all of them another version.
	family [][]byte

	// prepare sets constants that depend on the kernel; start runs after
	// loading, before anything is attached. Either may be nil.
	prepare func(*ebpf.CollectionSpec, *btf.Cache) error
	start   func(*ebpf.Collection)

	reuse map[string]*ebpf.Map // maps of an earlier set to use
}

// objects returns all objects.
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

// layout is a hash of everything that must be equal for pins to be adopted. Properties of
// the kernel are left out: pins do not outlive a boot.
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
	kernel, err := types.Kernel()
	if err != nil {
		return nil, fmt.Errorf("read BTF of the kernel: %w", err)
	}
	spec := o.spec.Copy()
	if o.prepare != nil {
		if err := o.prepare(spec, types); err != nil {
			return nil, err
		}
	}
	opts := ebpf.CollectionOptions{Cache: types, MapReplacements: o.reuse}
	// Only the kernel's own types. By default the library reads the types of all modules,
	// and a broken one makes every program fail to load (cilium/ebpf issue 1902). Limit:
	// for a tracepoint in a module, the library still reads the types of each module that
	// was loaded before it (findTargetInModule).
	opts.Programs.KernelTypes = kernel
	if o.base != nil {
		opts.MapReplacements = maps.Clone(o.base.maps)
		maps.DeleteFunc(opts.MapReplacements, func(name string, _ *ebpf.Map) bool { return spec.Maps[name] == nil })
	}
	if o.needs != "" {
		module, err := types.Module(o.needs)
		if err == nil {
			opts.Programs.ExtraRelocationTargets = []*btf.Spec{module}
		} else if !errors.Is(err, fs.ErrNotExist) { // built in, or absent, when relocating or attaching fails
			return nil, fmt.Errorf("read BTF of module %s: %w", o.needs, err)
		}
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, opts)
	if errors.Is(err, ebpf.ErrNotSupported) && len(opts.Programs.ExtraRelocationTargets) > 0 && lacks(unix.CAP_SYS_ADMIN) {
		// To attach to a module, the library opens the module's types by id
		// (bpf_btf_get_fd_by_id, kernel/bpf/syscall.c). Without the permission it returns
		// the same error as for a missing tracepoint.
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

// attachAll attaches the programs of coll, and moves what user space needs into a set. It
// does not attach the near program if there is a far one. It continues after failures and
// returns them.
func (o *object) attachAll(coll *ebpf.Collection) (s *set, failed []error) {
	s = newSet()
	if coll.Programs[o.far] != nil {
		s.near = coll.DetachProgram(o.near)
	}
	for name, at := range o.attach {
		if name == o.far && coll.Programs[name] == nil || name == o.near && s.near != nil {
			continue // not for this kernel, or not now
		}
		l, err := attach(coll.Programs[name], at)
		if err != nil {
			failed = append(failed, fmt.Errorf("attach %s to %s: %w", name, at, err))
			continue
		}
		s.links[name], s.programs[name] = l, coll.DetachProgram(name)
	}
	for _, name := range o.maps {
		s.maps[name] = coll.DetachMap(name)
	}
	return s, failed
}

// attach attaches a program to at. A tracing program has its own attach point and ignores
// at.
func attach(program *ebpf.Program, at string) (link.Link, error) {
	if program.Type() == ebpf.Kprobe {
		return link.Kprobe(at, program, nil)
	}
	return link.AttachTracing(link.TracingOptions{Program: program})
}

// findType looks a type up in the kernel, then in the module.
func findType(types *btf.Cache, name, module string, found any) error {
	spec, err := types.Kernel()
	if err != nil {
		return err
	}
	if err = spec.TypeByName(name, found); errors.Is(err, btf.ErrNotFound) {
		if spec, err = types.Module(module); err == nil {
			err = spec.TypeByName(name, found)
		}
	}
	return err
}

// hasFunction reports whether the kernel or the module has a function.
func hasFunction(types *btf.Cache, name, module string) (bool, error) {
	var found *btf.Func
	err := findType(types, name, module, &found)
	if errors.Is(err, btf.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// tracepointParams counts the arguments of a tracepoint of the kernel or of
// the module. The prototype has one more, for the tracer's own data.
func tracepointParams(types *btf.Cache, name, module string) (int, error) {
	var def *btf.Typedef
	if err := findType(types, "btf_trace_"+name, module, &def); err != nil {
		return 0, fmt.Errorf("find tracepoint %s: %w", name, err)
	}
	if pointer, ok := def.Type.(*btf.Pointer); ok {
		if proto, ok := pointer.Target.(*btf.FuncProto); ok {
			return len(proto.Params) - 1, nil
		}
	}
	return 0, fmt.Errorf("tracepoint %s has no prototype: %w", name, btf.ErrNotFound)
}
