package node

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/cgroup"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Cgroups says where a cgroup is; *cgroup.Hierarchy does.
type Cgroups interface {
	Path(id uint64) (string, error)
}

// writers joins what the kernel counts by cgroup with what the runtime calls
// the containers. It is read by the server and at each scrape; the loop brings
// the containers and throws away what nobody will ask for again.
type writers struct {
	probes     Probes
	cgroups    Cgroups // nil: living cgroups cannot be named
	top        int
	containers atomic.Pointer[cgroup.Containers] // nil: not listed yet
	fsTypes    atomic.Pointer[[]string]          // of the watched filesystems; nil: none yet

	mu    sync.Mutex
	paths map[uint64]string // of living cgroups, as found the last time
}

func newWriters(p Probes, c Cgroups, top int) *writers {
	return &writers{probes: p, cgroups: c, top: top, paths: map[uint64]string{}}
}

// Writer is what one container, or one cgroup of the host, did to the watched
// filesystems since it started.
type Writer struct {
	Namespace string `json:"namespace,omitempty"` // the pod's
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"` // its name in the pod; NAMESPACE/ID of one that the kubelet did not make
	ID        string `json:"id,omitempty"`
	Cgroup    string `json:"cgroup"` // of those that make up a container, one

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
func (w *writers) read() ([]Writer, error) {
	counted, err := w.probes.Writers()
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*Writer, len(counted))
	paths := w.locate(counted)
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
func (w *writers) describe(path string) Writer {
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

// locate finds the paths of all. One that cannot be found, because the cgroup
// ended since or nobody can look, is "".
func (w *writers) locate(counted []bpf.Writer) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	paths, live := make([]string, len(counted)), make(map[uint64]string, len(counted))
	for i, k := range counted {
		if k.EndedNS != 0 {
			paths[i] = k.Path
			continue
		}
		path, ok := w.paths[k.Cgroup]
		if !ok && w.cgroups != nil {
			path, _ = w.cgroups.Path(k.Cgroup)
		}
		if path != "" {
			live[k.Cgroup] = path
		}
		paths[i] = path
	}
	w.paths = live
	return paths
}

// forget drops writers that ended before the containers were listed and are
// none of them: a container that is only stopped keeps what it wrote.
func (w *writers) forget(containers *cgroup.Containers, ended func(bootNS uint64) bool) error {
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

// reviewWriters takes in a new list of containers, which was asked for at a
// moment, and the filesystems that count.
func (a *Agent) reviewWriters(inv *inventory.Inventory, asked time.Time) {
	w := a.metrics.writers.Load()
	if w == nil {
		return
	}
	containers := cgroup.NewContainers(inv.Containers)
	w.containers.Store(containers)
	devs := a.countable(w)
	err := w.forget(containers, func(bootNS uint64) bool { return a.clock.atBoot(bootNS).Before(asked) })
	if err == nil && !slices.Equal(devs, a.writersOn) {
		if err = w.probes.CountWriters(devs...); err == nil {
			a.writersOn = devs
		}
	}
	if errors.Is(err, bpf.ErrNotAttached) {
		return // said at start
	}
	if err != nil {
		a.said.once(a.log, "writers", slog.LevelWarn, "who fills the disk is not known", "error", err)
		return
	}
	a.said.clear(a.log, "writers", "who fills the disk is known again")
}

// countable are the watched filesystems on which the kernel can count.
func (a *Agent) countable(w *writers) (devs []uint64) {
	var types []string
	for _, f := range a.filesystems {
		types = append(types, f.Type)
		if a.probes.CanCountWriters(f.Type) {
			devs = append(devs, f.Dev)
		}
	}
	slices.Sort(devs)
	devs = slices.Compact(devs) // the limit of a project makes two of one
	slices.Sort(types)
	types = slices.Compact(types)
	w.fsTypes.Store(&types)
	return devs
}

// adoptWriters starts the counting, or ends what an agent before began.
func (a *Agent) adoptWriters() {
	if a.cfg.Writers.Top > 0 {
		a.metrics.writers.Store(newWriters(a.probes, a.cgroups, a.cfg.Writers.Top))
		return
	}
	if err := a.probes.CountWriters(); err != nil && !errors.Is(err, bpf.ErrNotAttached) {
		a.log.Warn("writers are still counted", "error", err)
	}
}

// WritersExplanation answers "who fills the disk".
type WritersExplanation struct {
	Time       time.Time `json:"time"`
	Unknown    string    `json:"unknown,omitempty"` // why the answer is empty or not whole
	Writers    []Writer  `json:"writers"`
	Containers bool      `json:"containersListed"` // false: no names of containers yet
}

func (a *Agent) explainWriters() WritersExplanation {
	e := WritersExplanation{Time: a.wall(), Writers: []Writer{}}
	w := a.metrics.writers.Load()
	switch {
	case a.probes == nil:
		e.Unknown = a.noProbes.Error()
		return e
	case w == nil:
		e.Unknown = "switched off by writers.top"
		return e
	}
	why := a.whyNotCounted(w)
	list, err := w.read()
	if err != nil && len(why) == 0 {
		why = append(why, err.Error())
	}
	e.Unknown, e.Containers = strings.Join(why, "; "), w.containers.Load() != nil
	e.Writers = append(e.Writers, list...)
	return e
}

// whyNotCounted lists why the counts are not there or not whole.
func (a *Agent) whyNotCounted(w *writers) (why []string) {
	add := func(reason string) {
		if reason != "" && !slices.Contains(why, reason) {
			why = append(why, reason)
		}
	}
	reasons := make(map[string]string) // by object
	for _, s := range a.probes.Status() {
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
		case reasons["writers"] == "" && !a.probes.CanCountWriters(t):
			add("writers on " + t + " are not counted")
		}
	}
	return why
}

// whoWrites serves /writers.
func (a *Agent) whoWrites(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(a.explainWriters()); err != nil {
		a.log.Debug("answer /writers", "error", err) // the client went away
	}
}
