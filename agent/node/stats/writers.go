package stats

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/cgroup"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Cgroups returns the path of a cgroup; *cgroup.Hierarchy implements it.
type Cgroups interface {
	Path(id uint64) (string, error)
}

// WriterProbes is what Writers needs of the kernel programs.
type WriterProbes interface {
	CanCountWriters(fsType string) bool
	CountWriters(devs ...uint64) error
	Writers() ([]bpf.Writer, error)
	ForgetWriters(ended ...bpf.Writer) error
	Status() []bpf.ProgramStatus
}

// Writers joins the kernel's counts by cgroup with the runtime's names of the containers. Pages and
// scrapes read it. The loop supplies the containers, and drops counts that are no longer needed.
type Writers struct {
	probes     WriterProbes
	off        string // why nothing is counted; "": writers are counted
	top        int
	sources    clock.Sources
	conditions *condition.Set
	containers atomic.Pointer[cgroup.Containers] // nil: not listed yet
	fsTypes    atomic.Pointer[[]string]          // of the watched filesystems; nil: none yet
	counted    []uint64                          // owned by the loop: the filesystems that the kernel counts on
	paths      cgroupPaths
}

// NewWriters registers the metrics of the top containers that grew most. off is why nothing is
// counted, "" if writers are counted.
func NewWriters(r prometheus.Registerer, probes WriterProbes, off string, cgroups Cgroups, top int, s clock.Sources, c *condition.Set) *Writers {
	w := &Writers{probes: probes, off: off, top: top, sources: s, conditions: c, paths: cgroupPaths{cgroups: cgroups}}
	r.MustRegister(writersCollector{w})
	return w
}

// cgroupPaths finds the paths of cgroups, and caches those of living ones.
type cgroupPaths struct {
	cgroups Cgroups // nil: living cgroups cannot be named
	mu      sync.Mutex
	known   map[uint64]string // as found the last time
}

// Writer is what one container, or one cgroup of the host, did to the watched
// filesystems since it started.
type Writer struct {
	Namespace string `json:"namespace,omitempty"` // the pod's
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"` // its name in the pod; NAMESPACE/ID of one that the kubelet did not create
	ID        string `json:"id,omitempty"`
	Cgroup    string `json:"cgroup"` // one of those that make up a container

	NetBytes      int64  `json:"netBytes"`
	GrownBytes    uint64 `json:"grownBytes"`
	ShrunkBytes   uint64 `json:"shrunkBytes"`
	InodesMade    uint64 `json:"inodesMade"`
	InodesRemoved uint64 `json:"inodesRemoved"`
	Ended         bool   `json:"ended"` // its cgroup is gone; what it wrote may not be
}

func (w *Writer) add(k bpf.Writer) {
	w.GrownBytes += k.Grown
	w.ShrunkBytes += k.Shrunk
	w.InodesMade += k.Made
	w.InodesRemoved += k.Removed
	w.NetBytes = int64(w.GrownBytes - w.ShrunkBytes)
	w.Ended = w.Ended && k.EndedNS != 0
}

// read returns every writer once, the one that grew most first.
func (w *Writers) read() ([]Writer, error) {
	counted, err := w.probes.Writers()
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*Writer, len(counted))
	paths := w.paths.find(counted)
	for i, k := range counted {
		one := w.describe(paths[i])
		key := cmp.Or(one.Container, one.Cgroup)
		if one.ID != "" {
			key = one.ID + " " + key
		}
		if byName[key] == nil {
			one.Ended = true
			byName[key] = &one
		}
		byName[key].add(k)
	}
	list := make([]Writer, 0, len(byName))
	for _, one := range byName {
		list = append(list, *one)
	}
	slices.SortFunc(list, func(a, b Writer) int {
		return cmp.Or(cmp.Compare(b.NetBytes, a.NetBytes), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Cgroup, b.Cgroup))
	})
	return list, nil
}

// describe names the writer at a path, as far as it is known.
func (w *Writers) describe(path string) Writer {
	one := Writer{Cgroup: path}
	if containers := w.containers.Load(); containers != nil {
		if c, ok := containers.Owner(path); ok {
			one.ID, one.Namespace, one.Pod, one.Container = c.ID, c.Pod.Namespace, c.Pod.Name, c.Pod.Container
			if c.Pod == (inventory.Pod{}) {
				one.Container = c.Namespace + "/" + c.ID
			}
		}
	}
	return one
}

// find returns the path of each writer's cgroup. It is "" if the cgroup ended since, or if cgroups
// cannot be read.
func (p *cgroupPaths) find(counted []bpf.Writer) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	paths, live := make([]string, len(counted)), make(map[uint64]string, len(counted))
	for i, k := range counted {
		if k.EndedNS != 0 {
			paths[i] = k.Path
			continue
		}
		path, ok := p.known[k.Cgroup]
		if !ok && p.cgroups != nil {
			path, _ = p.cgroups.Path(k.Cgroup)
		}
		if path != "" {
			live[k.Cgroup] = path
		}
		paths[i] = path
	}
	p.known = live
	return paths
}

// forget drops writers that ended before the containers were listed and belong to no listed
// container. A container that is only stopped is listed, and keeps its counts.
func (w *Writers) forget(containers *cgroup.Containers, ended func(bootNS uint64) bool) error {
	counted, err := w.probes.Writers()
	if err != nil {
		return err
	}
	var gone []bpf.Writer
	for _, k := range counted {
		if _, known := containers.Owner(k.Path); k.EndedNS != 0 && ended(k.EndedNS) && !known {
			gone = append(gone, k)
		}
	}
	return w.probes.ForgetWriters(gone...)
}

// Mount is a watched filesystem.
type Mount struct {
	Dev  uint64
	Type string
}

// Review takes in a new list of containers and the watched filesystems. before reports whether a
// time of CLOCK_BOOTTIME was before the list was requested.
func (w *Writers) Review(containers []inventory.Container, mounts []Mount, before func(bootNS uint64) bool) {
	if w.off != "" {
		return
	}
	owners := cgroup.NewContainers(containers)
	w.containers.Store(owners)
	devs := w.countable(mounts)
	err := w.forget(owners, before)
	if err == nil && !slices.Equal(devs, w.counted) {
		if err = w.probes.CountWriters(devs...); err == nil {
			w.counted = devs
		}
	}
	if errors.Is(err, bpf.ErrNotAttached) {
		return // logged at the start
	}
	if err != nil {
		w.conditions.Begin("writers", slog.LevelWarn, "cannot read who fills the disk", "error", err)
		return
	}
	w.conditions.End("writers", "who fills the disk is known again")
}

// countable returns the filesystems on which the kernel can count. It stores the types of all.
func (w *Writers) countable(mounts []Mount) (devs []uint64) {
	var types []string
	for _, m := range mounts {
		types = append(types, m.Type)
		if w.probes.CanCountWriters(m.Type) {
			devs = append(devs, m.Dev)
		}
	}
	slices.Sort(devs)
	devs = slices.Compact(devs) // a project quota makes two watched filesystems of one
	slices.Sort(types)
	types = slices.Compact(types)
	w.fsTypes.Store(&types)
	return devs
}

// WritersExplanation answers "who fills the disk".
type WritersExplanation struct {
	Time       time.Time `json:"time"`
	Unknown    string    `json:"unknown,omitempty"` // why the answer is empty or incomplete
	Writers    []Writer  `json:"writers"`
	Containers bool      `json:"containersListed"` // false: no names of containers yet
}

// Explain serves the admin socket's /writers.
func (w *Writers) Explain() WritersExplanation {
	e := WritersExplanation{Time: w.sources.Wall(), Unknown: w.off, Writers: []Writer{}}
	if w.off != "" {
		return e
	}
	why := w.whyNotCounted()
	list, err := w.read()
	if err != nil && len(why) == 0 {
		why = append(why, err.Error())
	}
	e.Unknown, e.Containers = strings.Join(why, "; "), w.containers.Load() != nil
	e.Writers = append(e.Writers, list...)
	return e
}

// whyNotCounted lists why counts are missing or incomplete.
func (w *Writers) whyNotCounted() (why []string) {
	add := func(reason string) {
		if reason != "" && !slices.Contains(why, reason) {
			why = append(why, reason)
		}
	}
	reasons := make(map[string]string) // by object
	for _, s := range w.probes.Status() {
		reasons[s.Object] = cmp.Or(reasons[s.Object], s.Reason)
	}
	add(reasons["writers"])
	types := w.fsTypes.Load()
	if types == nil {
		return why
	}
	for _, t := range *types {
		switch own := reasons["writers_"+t]; {
		case own != "":
			add(own)
		case reasons["writers"] == "" && !w.probes.CanCountWriters(t):
			add("writers on " + t + " are not counted")
		}
	}
	return why
}

// mostNamed is how many writers GrewMost names.
const mostNamed = 3

// GrewMost names the writers that took most since counting began, on all watched filesystems; "" if
// writers are not counted.
func (w *Writers) GrewMost(byInodes bool) string {
	if w.off != "" {
		return ""
	}
	list, err := w.read()
	if err != nil {
		return "" // Explain reports why
	}
	made := func(w Writer) int64 { return int64(w.InodesMade - w.InodesRemoved) }
	if byInodes {
		slices.SortStableFunc(list, func(a, b Writer) int { return cmp.Compare(made(b), made(a)) })
	}
	var parts []string
	for _, one := range list[:min(len(list), mostNamed)] {
		name := cmp.Or(one.Container, one.Cgroup, "unknown")
		if one.Pod != "" {
			name = one.Namespace + "/" + one.Pod + "/" + one.Container
		}
		parts = append(parts, fmt.Sprintf("%s %d MiB, %d inodes", name, one.NetBytes>>20, made(one)))
	}
	return strings.Join(parts, "; ")
}
