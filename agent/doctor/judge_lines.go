package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/runtime/fs"
)

// nearPoints is how close to the kubelet's line ebb's may be without a word. A
// fast writer crosses two points of a disk within seconds.
const nearPoints = 2

// resource is one of the two things that run out.
type resource struct{ id, available string }

var (
	bytesLeft  = resource{"bytes", "available"}
	inodesLeft = resource{"inodes", "inodesFree"}
)

// place is a filesystem with the lines of ebb on it: one, however many
// directories are there (see agent/node).
type place struct {
	names       []string
	disk        *Disk
	holdsImages bool
	lines       map[string]ebbLine // by resource
}

type ebbLine struct {
	field   string
	percent int
}

// eviction is one line of the eviction manager on one filesystem.
type eviction struct {
	setting  string // "evictionHard imagefs.available<15%"
	from     string
	soft     bool
	used     float64 // percent at which it acts
	pressure bool    // it is beyond the line now
}

// judgeLines holds ebb's lines against those of the eviction manager.
func judgeLines(all *findings, f *Facts) {
	k := &f.Kubelet
	if !k.known() {
		return
	}
	if len(k.Settings.EvictionHard) == 0 && len(k.Settings.EvictionSoft) == 0 {
		all.add(Warning, "eviction", "the kubelet has no eviction thresholds at all",
			"a full disk then fails pods in place of evicting some. The well-known defaults come with a configuration file that does not set evictionHard; "+
				"a kubelet without --config, or with evictionHard: {}, has none",
			"give it a configuration file without evictionHard, or with mergeDefaultEvictionSettings: true")
	}
	judgeThresholds(all, k)
	for _, p := range places(f) {
		for _, r := range []resource{bytesLeft, inodesLeft} {
			judgeLine(all, f, p, r)
		}
	}
}

// judgeThresholds reads each threshold once, for its spelling and for what the
// kubelet ignores.
func judgeThresholds(all *findings, k *KubeletFacts) {
	for _, kind := range kinds(&k.Settings) {
		for _, signal := range slices.Sorted(maps.Keys(kind.thresholds)) {
			v := kind.thresholds[signal]
			if _, err := kubelet.ParseThreshold(v.V); err != nil {
				all.add(Warning, "eviction.unreadable", fmt.Sprintf("%s %s (%s): %v", kind.name, signal, v.From, err),
					"a kubelet does not start with it: what was read here is not what it runs with")
			}
			if strings.HasPrefix(signal, "containerfs.") {
				all.add(Note, "eviction.containerfs", fmt.Sprintf("%s %s (%s) is ignored by the kubelet", kind.name, signal, v.From),
					"it takes the thresholds of nodefs, or of imagefs where that is a filesystem of its own", "remove it")
			}
		}
	}
}

type kind struct {
	name       string
	thresholds map[string]kubelet.Value[string]
	soft       bool
}

func kinds(s *kubelet.Settings) []kind {
	return []kind{{"evictionHard", s.EvictionHard, false}, {"evictionSoft", s.EvictionSoft, true}}
}

// places finds the filesystems that ebb has lines on, as agent/node does.
func places(f *Facts) []*place {
	var list []*place
	type ground struct {
		dev     uint64
		project fs.Project
	}
	known := map[ground]*place{}
	for _, name := range []string{DiskImages, DiskContent, DiskContainers, DiskKubelet, DiskLogs} {
		d := f.disk(name)
		if d == nil {
			continue
		}
		at := ground{d.Dev, d.Project}
		p := known[at]
		if p == nil {
			p = &place{disk: d, holdsImages: name == DiskImages || name == DiskContent, lines: map[string]ebbLine{}}
			known[at], list = p, append(list, p)
		}
		p.names = append(p.names, name)
		p.take(bytesLeft, lineOf(f, name, bytesLeft))
		p.take(inodesLeft, lineOf(f, name, inodesLeft))
	}
	return list
}

// take keeps the first line of a filesystem with images, else the lowest.
func (p *place) take(r resource, l ebbLine) {
	had, ok := p.lines[r.id]
	if !ok || !p.holdsImages && l.percent < had.percent {
		p.lines[r.id] = l
	}
}

func lineOf(f *Facts, name string, r resource) ebbLine {
	c := &f.Config
	lines := map[string][2]ebbLine{
		DiskKubelet: {
			{"filesystems.kubelet.highThresholdPercent", c.Filesystems.Kubelet.HighThresholdPercent},
			{"filesystems.kubelet.inodesHighThresholdPercent", c.Filesystems.Kubelet.InodesHighThresholdPercent},
		},
		DiskLogs: {
			{"filesystems.podLogs.highThresholdPercent", c.Filesystems.PodLogs.HighThresholdPercent},
			{"filesystems.podLogs.inodesHighThresholdPercent", c.Filesystems.PodLogs.InodesHighThresholdPercent},
		},
	}
	pair, ok := lines[name]
	if !ok {
		pair = [2]ebbLine{
			{"images.imageGCHighThresholdPercent", c.Images.HighThresholdPercent},
			{"images.inodesHighThresholdPercent", c.Images.InodesHighThresholdPercent},
		}
	}
	if r == bytesLeft {
		return pair[0]
	}
	return pair[1]
}

// evictions are the kubelet's lines for one resource of a filesystem, the lowest
// first. Capacities are the filesystem's own, which the kubelet counts by, too.
func evictions(f *Facts, p *place, r resource) []eviction {
	if p.disk.Project.Limited {
		return nil // the kubelet looks at the mount, so at the whole filesystem
	}
	capacity, available := figures(p.disk, r)
	var list []eviction
	for _, kind := range kinds(&f.Kubelet.Settings) {
		for _, group := range groupsOn(f, p.disk.Dev) {
			signal := group + "." + r.available
			v, ok := kind.thresholds[signal]
			t, err := kubelet.ParseThreshold(v.V)
			if !ok || err != nil || t.Off() {
				continue
			}
			list = append(list, eviction{
				setting: fmt.Sprintf("%s %s<%s", kind.name, signal, v.V), from: v.From, soft: kind.soft,
				used: t.UsedPercent(capacity), pressure: float64(available) < t.Available(capacity),
			})
		}
	}
	slices.SortStableFunc(list, func(a, b eviction) int { return cmp.Compare(a.used, b.used) })
	return list
}

func figures(d *Disk, r resource) (capacity, available uint64) {
	if r == bytesLeft {
		return d.Figures.CapacityBytes, d.Figures.AvailableBytes
	}
	return d.Figures.Inodes, d.Figures.InodesAvailable
}

// groupsOn says whose thresholds hold on a filesystem. Writable layers go by
// nodefs's, or by imagefs's where that is apart (UpdateContainerFsThresholds).
func groupsOn(f *Facts, dev uint64) []string {
	images, node, containers := f.disk(DiskImages), f.disk(DiskNode), f.disk(DiskContainers)
	var groups []string
	if images != nil && images.Dev == dev {
		groups = append(groups, "imagefs")
	}
	if node != nil && node.Dev == dev {
		groups = append(groups, "nodefs")
	}
	if containers != nil && containers.Dev == dev && images != nil && node != nil {
		theirs := "nodefs"
		if images.Dev != node.Dev {
			theirs = "imagefs"
		}
		if !slices.Contains(groups, theirs) {
			groups = append(groups, theirs)
		}
	}
	return groups
}

// judgeLine judges one resource of one filesystem. That the disk is beyond the
// kubelet's line already is another matter than where ebb's is: both are said.
func judgeLine(all *findings, f *Facts, p *place, r resource) {
	capacity, _ := figures(p.disk, r)
	if capacity == 0 {
		return // btrfs does not count inodes
	}
	id := "eviction-line." + p.names[0] + "." + r.id
	ours, theirs := p.lines[r.id], evictions(f, p, r)
	for _, e := range theirs {
		if e.pressure {
			all.add(Error, "pressure."+p.names[0]+"."+r.id,
				fmt.Sprintf("%s is beyond the kubelet's line: %s", describePlace(p, r), describe(e)),
				"the node is under disk pressure: unused images go if they are there, then pods are evicted",
				"make room below "+p.disk.Path+"; /writers of a running agent says who fills it (writers.top)")
			break
		}
	}
	switch {
	case len(theirs) == 0 && ours.percent >= 100:
		all.add(Note, id, fmt.Sprintf("%s: no line, neither ebb's (%s: 100) nor the kubelet's", describePlace(p, r), ours.field), "")
	case p.disk.Project.Limited:
		all.ok(id, fmt.Sprintf("%s: ebb acts at %d %% of the project's quota; the kubelet looks at the whole filesystem", describePlace(p, r), ours.percent))
	case len(theirs) == 0:
		all.ok(id, fmt.Sprintf("%s: ebb acts at %d %%; the kubelet has no line there", describePlace(p, r), ours.percent))
	case ours.percent >= 100:
		judgeOff(all, id, p, r, ours, theirs[0])
	default:
		judgeDistance(all, f, id, p, r, ours, theirs[0])
	}
}

// judgeOff: 100 is somebody's decision, so no error; but for the bytes of images
// hardly one that was meant to leave them to the eviction manager.
func judgeOff(all *findings, id string, p *place, r resource, ours ebbLine, nearest eviction) {
	level := Note
	if p.holdsImages && r == bytesLeft {
		level = Warning
	}
	all.add(level, id, fmt.Sprintf("%s: ebb's line is off (%s: 100); the kubelet evicts from %s", describePlace(p, r), ours.field, describe(nearest)),
		"nothing is removed there before the eviction manager acts",
		fmt.Sprintf("%s: %d", ours.field, below(nearest.used)))
}

// judgeDistance: where the lines meet it is chance who is first, and the eviction
// manager's way is the harsher one.
func judgeDistance(all *findings, f *Facts, id string, p *place, r resource, ours ebbLine, nearest eviction) {
	distance := nearest.used - float64(ours.percent)
	found := fmt.Sprintf("%s: ebb acts at %d %%, the kubelet evicts from %s", describePlace(p, r), ours.percent, describe(nearest))
	if distance > nearPoints {
		all.ok(id, fmt.Sprintf("%s; %s points apart", found, number(distance)))
		return
	}
	level, how := Warning, "so close that the eviction manager can be first"
	switch {
	case distance == 0:
		level, how = Error, "the two lines meet"
	case distance < 0:
		level, how = Error, "ebb's line lies above the kubelet's"
	}
	why := "the eviction manager removes all unused images at once, marks the node under pressure and evicts pods; ebb is there to keep it from having cause"
	if nearest.soft {
		why += ". A soft threshold counts once its grace period is over"
	}
	all.add(level, id, found+": "+how, why, apart(f, ours, p, nearest)...)
}

// apart names both ways to bring the lines apart.
func apart(f *Facts, ours ebbLine, p *place, nearest eviction) []string {
	if nearest.used < 10 {
		return []string{fmt.Sprintf("mend %s (%s): the filesystem of %s is hardly larger than that", nearest.setting, nearest.from, p.disk.Path)}
	}
	high := below(nearest.used)
	way := fmt.Sprintf("%s: %d in %s", ours.field, high, ebbFile(f))
	if low := f.Config.Images.LowThresholdPercent; p.holdsImages && strings.HasSuffix(ours.field, "imageGCHighThresholdPercent") && low >= high {
		way += fmt.Sprintf(", with images.imageGCLowThresholdPercent below it (it is %d)", low)
	}
	if low := f.Config.Images.InodesLowThresholdPercent; strings.HasSuffix(ours.field, "images.inodesHighThresholdPercent") && low >= high {
		way += fmt.Sprintf(", with images.inodesLowThresholdPercent below it (it is %d)", low)
	}
	return []string{way, fmt.Sprintf("or less in the kubelet's %s (%s)", nearest.setting, nearest.from)}
}

// below is a good place for ebb's line: five points under the kubelet's.
func below(used float64) int { return max(1, int(math.Floor(used))-5) }

func describe(e eviction) string {
	return fmt.Sprintf("%s %% (%s, %s)", number(e.used), e.setting, e.from)
}

// describePlace: the disks have a section of their own, with sizes.
func describePlace(p *place, r resource) string {
	return fmt.Sprintf("%s by %s, %s used", strings.Join(p.names, ", "), r.id, usedOf(p, r))
}

// usedOf is not rounded as the kubelet and ebb do for their lines, almost a
// percent up: people compare it with df.
func usedOf(p *place, r resource) string {
	capacity, available := figures(p.disk, r)
	used := 0.0
	if available < capacity {
		used = 100 - 100*float64(available)/float64(capacity)
	}
	return number(used) + " %"
}

// number writes at most one digit after the point.
func number(x float64) string {
	return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64)
}
