package bpf

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// reporter holds what is open while a report is made.
type reporter struct {
	*Report
	programs [][]*ebpf.Program // by object and program; nil: not there
	live     map[string]*set   // of this version, by object
	seen     map[ebpf.MapID]bool
}

func (r *reporter) close() {
	for _, s := range r.live {
		s.close()
	}
	for _, p := range slices.Concat(r.programs...) {
		p.Close()
	}
}

func (r *reporter) startStatistics(sample time.Duration) (stop func()) {
	if sample <= 0 {
		r.RunTime = "not asked for"
		return func() {}
	}
	on, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		r.RunTime = "off: " + classify(err).Error()
		return func() {}
	}
	return func() { on.Close() }
}

// setDirs lists the sets below dir, without half-made ones.
func setDirs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasSuffix(e.Name(), suffixNew) {
			dirs = append(dirs, filepath.Join(dir, e.Name()))
		}
	}
	return dirs, nil
}

// open reports the pinned sets: of all, the objects of this version, then the others in
// dirs.
func (r *reporter) open(all []*object, dirs []string) {
	at := &pins{dir: r.PinDir}
	for _, o := range all {
		r.shareMaps(o)
		report, s := ObjectReport{Name: o.name, Layout: o.layout(), State: StatePinned}, (*set)(nil)
		if i := slices.Index(dirs, at.dirOf(o)); i < 0 {
			report.State, report.Reason = StateMissing, "not pinned: no filesystem here needs it, or the agent that runs could not load it, or is of another version"
		} else {
			var err error
			if s, err = at.adopt(o); err != nil {
				report.State, report.Reason = StateFailed, classify(err).Error()
			}
			dirs = slices.Delete(dirs, i, i+1)
		}
		r.add(report, o.attach, s)
	}
	for _, dir := range dirs {
		r.openOther(dir)
	}
}

// shareMaps sets the base of an object that uses the maps of another.
func (r *reporter) shareMaps(o *object) {
	if o.family != nil && o.name != objectWriters {
		o.base = r.live[objectWriters]
	}
}

// openOther reads a set of another version, of which only the pins are known.
func (r *reporter) openOther(dir string) {
	name, layout, _ := strings.Cut(filepath.Base(dir), "-")
	report := ObjectReport{Name: name, Layout: layout, State: StateOther}
	s, attach := newSet(), map[string]string{}
	defer s.close()
	entries, err := os.ReadDir(filepath.Join(dir, "links"))
	for _, e := range entries {
		var l link.Link
		if l, err = link.LoadPinnedLink(filepath.Join(dir, "links", e.Name()), nil); err != nil {
			break
		}
		s.links[e.Name()], attach[e.Name()] = l, ""
	}
	if err != nil {
		report.State, report.Reason = StateFailed, classify(err).Error()
	}
	r.add(report, attach, s)
}

// try loads every object for the duration of the report. It continues if a program
// cannot be attached.
func (r *reporter) try(all []*object) {
	types := btf.NewCache()
	for _, o := range all {
		r.shareMaps(o)
		var report ObjectReport
		var s *set
		if o.name == objectHeat {
			o, report, s = tryHeat(types)
		} else {
			report, s = trial(o, types)
		}
		r.add(report, o.attach, s)
	}
}

// tryHeat loads the best tier that the kernel allows. The report has the reason why better ones
// were refused.
func tryHeat(types *btf.Cache) (o *object, report ObjectReport, s *set) {
	var refused []string
	for _, tier := range heatCandidates(HeatAuto) {
		if s != nil {
			s.close()
		}
		var err error
		if o, err = heatObject(tier, heatSize{}); err != nil {
			continue // the last one is in objects(), which has no error
		}
		if report, s = trial(o, types); report.State != StateFailed {
			break
		}
		refused = append(refused, tier+": "+report.Reason)
	}
	report.Reason = strings.Join(refused, "; ")
	return o, report, s
}

// trial loads and attaches one object. The set is nil if the object cannot be loaded.
func trial(o *object, types *btf.Cache) (ObjectReport, *set) {
	report := ObjectReport{Name: o.name, Layout: o.layout(), State: StateTrial}
	var coll *ebpf.Collection
	err := o.present(types, nil)
	if err == nil {
		coll, err = o.load(types)
	}
	if err != nil {
		report.State, report.Reason = StateFailed, classify(err).Error()
		return report, nil
	}
	defer coll.Close()
	s, failed := o.attachAll(coll)
	if err := classify(errors.Join(failed...)); err != nil {
		report.State, report.Reason = StateFailed, err.Error()
	}
	return report, s
}

// add adds an object to the report, keeps its set if it is of this version, and opens
// the programs behind its links. The near program may have no link, because the agent
// attaches it only while it is needed.
func (r *reporter) add(report ObjectReport, attach map[string]string, s *set) {
	if s == nil {
		s = newSet()
	} else if report.State != StateOther {
		r.live[report.Name] = s
	}
	report.Programs, report.Maps = []ProgramReport{}, []MapReport{}
	var open []*ebpf.Program
	for _, name := range slices.Sorted(maps.Keys(attach)) {
		p := ProgramReport{Name: name, AttachPoint: attach[name], Reason: report.Reason}
		var program *ebpf.Program
		if l := s.links[name]; l != nil {
			info, err := l.Info()
			if err == nil {
				program, err = ebpf.NewProgramFromID(info.Program)
			}
			p.Attached, p.Reason = true, ""
			if err != nil {
				p.Reason = "cannot be looked at: " + classify(err).Error()
			} else {
				p.ID = uint32(info.Program)
			}
		} else if s.near != nil {
			program, p.ID = openNear(s.near)
		}
		report.Programs, open = append(report.Programs, p), append(open, program)
	}
	r.Objects, r.programs = append(r.Objects, report), append(r.programs, open)
}

// openNear opens the near program again and returns its ID. If that fails it returns
// nil and 0, so the ID is missing from the report.
func openNear(near *ebpf.Program) (*ebpf.Program, uint32) {
	info, err := near.Info()
	if err != nil {
		return nil, 0
	}
	program, err := near.Clone()
	if err != nil {
		return nil, 0
	}
	id, _ := info.ID()
	return program, uint32(id)
}

// measure fills in the statistics. It runs last, so that they cover the sampled time.
func (r *reporter) measure() {
	for i := range r.Objects {
		object := &r.Objects[i]
		for j, program := range r.programs[i] {
			if program == nil {
				continue
			}
			r.measureProgram(&object.Programs[j], program)
			if err := r.measureMaps(object, program); err != nil && object.Reason == "" {
				object.Reason = "maps: " + classify(err).Error()
			}
		}
		slices.SortFunc(object.Maps, func(a, b MapReport) int { return cmp.Compare(a.Name, b.Name) })
	}
	kernel := r.concerns()
	counters, err := kernel.Counters()
	if err != nil {
		r.Note = classify(err).Error()
	}
	r.Events, r.Lost = counters.Events(), counters.Lost()
	for _, s := range kernel.Status() {
		r.limit(s)
	}
}

// concerns returns concerns that use the open sets. The reporter closes the sets.
func (r *reporter) concerns() *concerns {
	c := &concerns{
		lastuse: lastuse{attachment: attachment{set: r.live[objectLastUse]}},
		heat:    heat{attachment: attachment{set: r.live[objectHeat]}},
		usage:   usage{on: map[string]usageSet{}},
		writers: writers{on: map[string]attachment{}},
	}
	for _, fsType := range fsTypes {
		c.usage.on[fsType] = usageSet{attachment: attachment{set: r.live[objectUsage+fsType]}}
	}
	for _, fsType := range writersTypes {
		c.writers.on[fsType] = attachment{set: r.live[writersName(fsType)]}
	}
	return c
}

// limit completes the reasons of a program's report from its status: in what way it is
// less exact, or why it is idle.
func (r *reporter) limit(s ProgramStatus) {
	for i := range r.Objects {
		for j := range r.Objects[i].Programs {
			if p := &r.Objects[i].Programs[j]; r.Objects[i].Name == s.Object && p.Name == s.Name && p.Attached == s.Attached && p.Reason == "" {
				p.Reason = cmp.Or(s.Reason, s.Idle)
			}
		}
	}
}

func (r *reporter) measureProgram(p *ProgramReport, program *ebpf.Program) {
	stats, err := program.Stats()
	if err != nil {
		p.Reason = "cannot be looked at: " + classify(err).Error()
		return
	}
	p.Runs, p.Missed = stats.RunCount, stats.RecursionMisses
	if stats.RunCount > 0 {
		p.Nanoseconds = uint64(stats.Runtime) / stats.RunCount
	}
}

// measureMaps adds the maps that a program uses to the report, each once.
func (r *reporter) measureMaps(object *ObjectReport, program *ebpf.Program) error {
	info, err := program.Info()
	if err != nil {
		return err
	}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		if r.seen[id] {
			continue
		}
		r.seen[id] = true
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			return err
		}
		report, err := describeMap(m)
		m.Close()
		if err != nil {
			return err
		}
		object.Maps = append(object.Maps, report)
		r.MapBytes += report.Bytes
	}
	return nil
}

func describeMap(m *ebpf.Map) (MapReport, error) {
	info, err := m.Info()
	if err != nil {
		return MapReport{}, err
	}
	bytes, _ := info.Memlock()
	report := MapReport{Name: info.Name, Type: info.Type.String(), MaxEntries: info.MaxEntries, Entries: -1, Bytes: bytes}
	if info.Type == ebpf.Hash {
		report.Entries = countEntries(m)
	}
	return report, nil
}

// countEntries counts the keys of a hash. If a key is removed during the walk, the
// kernel begins again, so the walk is bounded and the count is approximate.
func countEntries(m *ebpf.Map) int {
	key, next := make([]byte, m.KeySize()), make([]byte, m.KeySize())
	n := 0
	for err := m.NextKey(nil, &next); err == nil && n < int(m.MaxEntries()); err = m.NextKey(key, &next) {
		key, next = next, key
		n++
	}
	return n
}
