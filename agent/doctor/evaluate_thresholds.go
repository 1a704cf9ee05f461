package doctor

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/agent/node/config"
)

// nearPoints is the distance, in percent points, up to which ebb's threshold is too close to the
// kubelet's. A fast writer fills two percent of a disk within seconds.
const nearPoints = 2

// resource is bytes or inodes. available is the resource in the kubelet's signals.
type resource struct{ id, available string }

var (
	bytesLeft  = resource{"bytes", "available"}
	inodesLeft = resource{"inodes", "inodesFree"}
	resources  = []resource{bytesLeft, inodesLeft}
)

// filesystem is a filesystem with thresholds of ebb. It is listed once, however many directories
// are on it (see agent/node/watermark).
type filesystem struct {
	names       []string
	disk        *Disk
	holdsImages bool
	thresholds  map[resource]threshold
}

// threshold is a threshold of ebb: its field in the configuration, and the used percent.
type threshold struct {
	field   string
	percent int
}

// eviction is one threshold of the eviction manager.
type eviction struct {
	kind, signal, text, from string // "evictionHard", "imagefs.available", "15%"
	kubelet.Threshold
	used float64 // percent of a filesystem at which it acts
}

// evaluateThresholds compares ebb's thresholds with those of the eviction manager.
func evaluateThresholds(all *findings, f *Facts) {
	k := &f.Kubelet
	if !k.known() {
		return
	}
	if len(k.Settings.EvictionHard) == 0 && len(k.Settings.EvictionSoft) == 0 {
		all.add(Warning, "eviction", "the kubelet has no eviction thresholds at all",
			"then pods fail on a full disk, and none is evicted. The kubelet has default thresholds only with a configuration file that does not set evictionHard; "+
				"a kubelet without --config, or with evictionHard: {}, has none",
			"give it a configuration file without evictionHard, or with mergeDefaultEvictionSettings: true")
	}
	evictions := readEvictions(all, &k.Settings)
	for _, fs := range filesystems(f) {
		for _, r := range resources {
			// btrfs does not count inodes.
			if capacity, _ := figures(fs.disk, r); capacity != 0 {
				evaluateThreshold(all, f, fs, r, evictionsOn(f, evictions, fs, r))
			}
		}
	}
}

// readEvictions parses each threshold of the kubelet once. It reports those that are misspelt, and
// those that the kubelet ignores.
func readEvictions(all *findings, s *kubelet.Settings) (list []eviction) {
	for kind, thresholds := range map[string]kubelet.Thresholds{"evictionHard": s.EvictionHard, "evictionSoft": s.EvictionSoft} {
		for signal, v := range thresholds {
			list = append(list, eviction{kind: kind, signal: signal, text: v.V, from: v.From})
		}
	}
	slices.SortFunc(list, func(a, b eviction) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.signal, b.signal)) })
	for i := range list {
		e := &list[i]
		var err error
		if e.Threshold, err = kubelet.ParseThreshold(e.text); err != nil {
			all.add(Warning, "eviction.unreadable", fmt.Sprintf("%s %s (%s): %v", e.kind, e.signal, e.from, err),
				"no kubelet starts with this value, so its settings in force are others")
		}
		if strings.HasPrefix(e.signal, "containerfs.") {
			all.add(Note, "eviction.containerfs", fmt.Sprintf("%s %s (%s) is ignored by the kubelet", e.kind, e.signal, e.from),
				"it uses the thresholds of nodefs, or of imagefs where that is a filesystem of its own", "remove it")
		}
	}
	return list
}

// filesystems returns those that ebb has thresholds on, as agent/node/watermark does. If several
// directories are on one filesystem, the thresholds of images apply if images or blobs are there,
// else the lowest ones.
func filesystems(f *Facts) []*filesystem {
	var list []*filesystem
	for _, name := range watched {
		d := f.disk(name)
		if d == nil {
			continue
		}
		i := slices.IndexFunc(list, func(fs *filesystem) bool { return fs.disk.Dev == d.Dev && fs.disk.Project == d.Project })
		if i < 0 {
			i = len(list)
			list = append(list, &filesystem{disk: d, holdsImages: name == DiskImages || name == DiskContent, thresholds: map[resource]threshold{}})
		}
		fs := list[i]
		fs.names = append(fs.names, name)
		for r, own := range thresholdsOf(&f.Config, name) {
			if had, ok := fs.thresholds[r]; !ok || !fs.holdsImages && own.percent < had.percent {
				fs.thresholds[r] = own
			}
		}
	}
	return list
}

// thresholdsOf returns the thresholds of a directory that is on a filesystem of its own.
func thresholdsOf(c *config.Config, name string) map[resource]threshold {
	field, bytes := "images", "imageGCHighThresholdPercent"
	d := config.Directory{HighThresholdPercent: c.Images.HighThresholdPercent, InodesHighThresholdPercent: c.Images.InodesHighThresholdPercent}
	switch name {
	case DiskKubelet:
		field, bytes, d = "filesystems.kubelet", "highThresholdPercent", c.Filesystems.Kubelet
	case DiskLogs:
		field, bytes, d = "filesystems.podLogs", "highThresholdPercent", c.Filesystems.PodLogs
	}
	return map[resource]threshold{
		bytesLeft:  {field + "." + bytes, d.HighThresholdPercent},
		inodesLeft: {field + ".inodesHighThresholdPercent", d.InodesHighThresholdPercent},
	}
}

// evictionsOn returns the kubelet's thresholds for one resource of a filesystem, lowest first.
// Capacities are those of the filesystem, which the kubelet uses, too.
func evictionsOn(f *Facts, all []eviction, fs *filesystem, r resource) (list []eviction) {
	if fs.disk.Project.Limited {
		return nil // the kubelet looks at the mount, so at the whole filesystem
	}
	capacity, _ := figures(fs.disk, r)
	groups := groupsOn(f, fs.disk.Dev)
	for _, e := range all {
		group, what, _ := strings.Cut(e.signal, ".")
		if what == r.available && groups[group] && !e.Off() {
			e.used = e.UsedPercent(capacity)
			list = append(list, e)
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

// groupsOn returns which groups of the kubelet's signals apply to a filesystem. For writable layers
// that is nodefs, or imagefs if imagefs is another filesystem than nodefs
// (UpdateContainerFsThresholds).
func groupsOn(f *Facts, dev uint64) map[string]bool {
	on := func(d *Disk) bool { return d != nil && d.Dev == dev }
	images, node := f.disk(DiskImages), f.disk(DiskNode)
	groups := map[string]bool{"imagefs": on(images), "nodefs": on(node)}
	if on(f.disk(DiskContainers)) && images != nil && node != nil {
		if images.Dev == node.Dev {
			groups["nodefs"] = true
		} else {
			groups["imagefs"] = true
		}
	}
	return groups
}

// evaluateThreshold checks one resource of one filesystem. A disk that is beyond the kubelet's
// threshold is reported separately from where ebb's threshold is.
func evaluateThreshold(all *findings, f *Facts, fs *filesystem, r resource, theirs []eviction) {
	capacity, available := figures(fs.disk, r)
	id := "eviction-threshold." + fs.names[0] + "." + r.id
	ours := fs.thresholds[r]
	is := fmt.Sprintf("%s by %s, %s used", strings.Join(fs.names, ", "), r.id, usedOf(fs.disk, r))
	beyond := func(e eviction) bool { return float64(available) < e.Available(capacity) }
	if i := slices.IndexFunc(theirs, beyond); i >= 0 {
		all.add(Error, "pressure."+fs.names[0]+"."+r.id, is+" is beyond the kubelet's threshold: "+theirs[i].String(),
			"the node has disk pressure: the kubelet removes unused images, then it evicts pods",
			"make room below "+fs.disk.Path+"; `ebb top` shows who fills it while an agent runs (writers.top)")
	}
	acts := fmt.Sprintf("%s: ebb acts at %d %%", is, ours.percent)
	switch {
	case len(theirs) == 0 && ours.percent >= 100:
		all.add(Note, id, fmt.Sprintf("%s: no threshold, neither ebb's (%s: 100) nor the kubelet's", is, ours.field), "")
	case fs.disk.Project.Limited:
		all.ok(id, acts+" of the project's quota; the kubelet looks at the whole filesystem")
	case len(theirs) == 0:
		all.ok(id, acts+"; the kubelet has no threshold there")
	case ours.percent >= 100:
		// An operator chose that, so it is no error. But for the bytes of images, the operator
		// hardly meant to leave them to the eviction manager.
		all.add(levelIf(fs.holdsImages && r == bytesLeft, Warning, Note), id, fmt.Sprintf("%s: ebb's threshold is off (%s: 100); the kubelet evicts from %s", is, ours.field, theirs[0]),
			"nothing is removed there before the eviction manager acts", fmt.Sprintf("%s: %d", ours.field, below(theirs[0])))
	default:
		evaluateDistance(all, f, id, acts, fs, ours, theirs[0])
	}
}

// evaluateDistance checks the distance between two thresholds. If they are too close, chance
// decides which one acts first, and the eviction manager acts more harshly.
func evaluateDistance(all *findings, f *Facts, id, acts string, fs *filesystem, ours threshold, nearest eviction) {
	distance := nearest.used - float64(ours.percent)
	found := acts + ", the kubelet evicts from " + nearest.String()
	level, how := Warning, "so close that the eviction manager can be first"
	switch {
	case distance > nearPoints:
		all.ok(id, fmt.Sprintf("%s; %s points apart", found, number(distance)))
		return
	case distance == 0:
		level, how = Error, "the two thresholds meet"
	case distance < 0:
		level, how = Error, "ebb's threshold is above the kubelet's"
	}
	why := "the eviction manager removes all unused images at once, reports disk pressure and evicts pods. ebb prevents that only if it acts first"
	if nearest.kind == "evictionSoft" {
		why += ". A soft threshold counts once its grace period is over"
	}
	all.add(level, id, found+": "+how, why, apart(f, ours, fs, nearest)...)
}

// apart returns both ways to move the thresholds apart.
func apart(f *Facts, ours threshold, fs *filesystem, nearest eviction) []string {
	theirs := fmt.Sprintf("%s %s<%s", nearest.kind, nearest.signal, nearest.text)
	if nearest.used < 10 {
		return []string{fmt.Sprintf("change %s (%s): the filesystem of %s is hardly larger than that", theirs, nearest.from, fs.disk.Path)}
	}
	high := below(nearest)
	way := fmt.Sprintf("%s: %d in %s", ours.field, high, ebbFile(f))
	for field, low := range map[string]int{
		"images.imageGCLowThresholdPercent": f.Config.Images.LowThresholdPercent,
		"images.inodesLowThresholdPercent":  f.Config.Images.InodesLowThresholdPercent,
	} {
		if strings.Replace(field, "Low", "High", 1) == ours.field && low >= high {
			way += fmt.Sprintf(", with %s below it (it is %d)", field, low)
		}
	}
	return []string{way, fmt.Sprintf("or less in the kubelet's %s (%s)", theirs, nearest.from)}
}

// below returns a good value for ebb's threshold: five points below the kubelet's.
func below(e eviction) int { return max(1, int(math.Floor(e.used))-5) }

func (e eviction) String() string {
	return fmt.Sprintf("%s %% (%s %s<%s, %s)", number(e.used), e.kind, e.signal, e.text, e.from)
}

// usedOf formats how much of a disk is used, in percent. For their thresholds, the kubelet and ebb
// round up by almost one percent. usedOf does not, because people compare it with df.
func usedOf(d *Disk, r resource) string {
	capacity, available := figures(d, r)
	used := 0.0
	if available < capacity {
		used = 100 - 100*float64(available)/float64(capacity)
	}
	return number(used) + " %"
}

// number writes at most one digit after the point.
func number(x float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0") }
