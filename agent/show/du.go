package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// Usage is what takes the space of a node, as its agent and its kubelet report it.
type Usage struct {
	page.Usage
	Pods        []PodUsage `json:"pods"`                  // by the kubelet
	PodsUnknown string     `json:"podsUnknown,omitempty"` // why there are none
}

// PodUsage is the disk space that a pod takes on its node, as the kubelet reports it.
type PodUsage struct {
	Namespace     string `json:"namespace"`
	Name          string `json:"name"`
	WritableBytes uint64 `json:"writableBytes"` // writable layers of its containers
	VolumeBytes   uint64 `json:"volumeBytes"`   // emptyDirs, and other volumes without a PVC
	LogBytes      uint64 `json:"logBytes"`
}

func (p PodUsage) total() uint64 { return p.WritableBytes + p.VolumeBytes + p.LogBytes }

// mostRows bounds each list of a node.
const mostRows = 10

// Du shows where the space of nodes went.
func Du(w io.Writer, v View, nodes []Node[Usage]) error {
	t := &text{View: v}
	blocks(t, answered(nodes), func(n Node[Usage]) { duInFull(t, n) }, func(n Node[Usage]) {
		u := n.Page
		t.hang("  "+Clean(n.Name)+"  ", fmt.Sprintf("images %s, others %s, unreferenced %s, logs %s", size(u.Totals.Images.Bytes),
			size(entries(u.Totals.Others).Bytes), size(entries(u.Totals.Nobody).Bytes), size(logs(u.Logs))))
	})
	silent(t, nodes)
	_, err := io.WriteString(w, t.String())
	return err
}

func logs(list []page.Directory) (bytes uint64) {
	for _, d := range list {
		bytes += d.Bytes
	}
	return bytes
}

func duInFull(t *text, n Node[Usage]) {
	u := n.Page
	t.line("%s, images listed %s ago", Clean(n.Name), age(u.Time, u.Looked))
	disks := newTable(column{name: "FILESYSTEM"}, column{name: "OF", spare: 2}, column{name: "USED", right: true}, column{name: "HIGH", right: true, spare: 1},
		column{name: "SIZE", right: true}, column{name: "AVAILABLE", right: true, spare: 3}, column{name: "INODES", right: true, spare: 4})
	for _, f := range u.Filesystems {
		inodes := ""
		if f.Inodes > 0 {
			inodes = fmt.Sprintf("%d%%", f.InodesUsedPercent)
		}
		disks.add(f.Path, strings.Join(f.Names, ","), fmt.Sprintf("%d%%", f.UsedPercent), fmt.Sprintf("%d%%", f.HighPercent), size(f.CapacityBytes), size(f.AvailableBytes), inodes)
	}
	disks.write(t, "  ")
	t.WriteByte('\n')
	duParts(t, u)
	duImages(t, u)
	duPods(t, u)
	if u.OpenDeleted != nil && len(u.OpenDeleted.By) > 0 {
		open := newTable(column{name: "DELETED, STILL OPEN"}, column{name: "PID", right: true}, column{name: "SIZE", right: true}, column{name: "FILES", right: true, spare: 1})
		for _, p := range u.OpenDeleted.By[:min(len(u.OpenDeleted.By), mostRows)] {
			open.add(p.Command, fmt.Sprint(p.PID), size(p.Bytes), fmt.Sprint(p.Inodes))
		}
		t.WriteByte('\n')
		open.write(t, "  ")
		duMore(t, len(u.OpenDeleted.By), "processes")
	}
	for _, why := range append(slices.Clone(u.Unknown), u.Totals.Unread...) {
		t.hang("  unknown: ", Clean(why))
	}
}

// duParts writes how much each kind of content takes. Shared content counts once.
func duParts(t *text, u Usage) {
	type part struct {
		name string
		page.Size
		oldest *time.Time
	}
	parts := []part{{name: "images", Size: u.Totals.Images}}
	for _, e := range u.Totals.Others {
		parts = append(parts, part{"only by " + e.By, e.Size, e.Oldest})
	}
	for _, e := range u.Totals.Nobody {
		parts = append(parts, part{"unreferenced " + e.By, e.Size, e.Oldest})
	}
	if len(u.Logs) > 0 {
		parts = append(parts, part{name: "logs of pods", Size: page.Size{Bytes: logs(u.Logs)}})
	}
	if len(u.Pods) > 0 {
		sum := PodUsage{}
		for _, p := range u.Pods {
			sum.WritableBytes, sum.VolumeBytes = sum.WritableBytes+p.WritableBytes, sum.VolumeBytes+p.VolumeBytes
		}
		parts = append(parts, part{name: "writable layers", Size: page.Size{Bytes: sum.WritableBytes}},
			part{name: "emptyDirs and other volumes", Size: page.Size{Bytes: sum.VolumeBytes}})
	}
	if u.OpenDeleted != nil && u.OpenDeleted.Bytes > 0 {
		parts = append(parts, part{name: "deleted, still open", Size: u.OpenDeleted.Size})
	}
	largest := uint64(1)
	for _, p := range parts {
		largest = max(largest, p.Bytes)
	}
	list := newTable(column{name: "WHAT"}, column{name: "SIZE", right: true}, column{name: "INODES", right: true, spare: 1},
		column{name: "OLDEST", right: true, spare: 3}, column{name: "", spare: 2})
	for _, p := range parts {
		inodes := ""
		if p.Inodes > 0 {
			inodes = fmt.Sprint(p.Inodes)
		}
		list.add(p.name, size(p.Bytes), inodes, ageOf(u.Time, p.oldest), bar(float64(p.Bytes)/float64(largest), 20))
	}
	list.write(t, "  ")
	if u.PodsUnknown != "" {
		t.hang("  ", "writable layers and emptyDirs: unknown: "+Clean(u.PodsUnknown))
	}
}

// bar draws a share, 0 to 1, in at most width characters.
func bar(share float64, width int) string {
	n := min(max(int(share*float64(width)+0.5), 0), width)
	if n == 0 {
		return "" // an empty cell
	}
	return strings.Repeat("#", n)
}

func duImages(t *text, u Usage) {
	if len(u.Images) == 0 {
		return
	}
	list := newTable(column{name: "IMAGE", tail: true}, column{name: "OWN", right: true}, column{name: "SHARED", right: true, spare: 1}, column{name: "KUBELET", right: true, spare: 2})
	for _, i := range u.Images[:min(len(u.Images), mostRows)] {
		list.add(imageName(i.ID, i.References), size(i.Own.Bytes), size(i.Shared.Bytes), size(i.KubeletBytes))
	}
	t.WriteByte('\n')
	list.write(t, "  ")
	duMore(t, len(u.Images), "images (ebb images --sort own)")
}

// duPods lists the pods that take most, as the kubelet reports it. If the kubelet reports no pods,
// duPods lists those with the most logs, as the agent reports it.
func duPods(t *text, u Usage) {
	list := newTable(column{name: "POD", tail: true}, column{name: "WRITABLE", right: true, spare: 2}, column{name: "EMPTYDIRS", right: true, spare: 1}, column{name: "LOGS", right: true})
	n := len(u.Pods)
	for _, p := range largestPods(u.Pods) {
		list.add(p.Namespace+"/"+p.Name, size(p.WritableBytes), size(p.VolumeBytes), size(p.LogBytes))
	}
	if n == 0 {
		n = len(u.Logs)
		for _, d := range u.Logs[:min(len(u.Logs), mostRows)] {
			list.add(cmp.Or(d.Pod, d.Path), "", "", size(d.Bytes))
		}
	}
	if n > 0 {
		t.WriteByte('\n')
		list.write(t, "  ")
		duMore(t, n, "pods")
	}
}

func largestPods(pods []PodUsage) []PodUsage {
	list := slices.Clone(pods)
	slices.SortStableFunc(list, func(a, b PodUsage) int {
		return cmp.Or(cmp.Compare(b.total(), a.total()), cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	return list[:min(len(list), mostRows)]
}

func duMore(t *text, n int, what string) {
	if n > mostRows {
		t.hang("  ", fmt.Sprintf("… and %d more %s", n-mostRows, what))
	}
}

// DuNames returns the names of the images of each node, those with the largest own size first.
func DuNames(nodes []Node[Usage]) (names []string) {
	for _, n := range answered(nodes) {
		for _, i := range n.Page.Images {
			names = append(names, imageName(i.ID, i.References))
		}
	}
	return names
}

// Summary is the part of a kubelet's answer to /stats/summary that ebb du uses.
type Summary struct {
	Pods []struct {
		PodRef     struct{ Name, Namespace string }
		Containers []struct {
			Rootfs, Logs struct{ UsedBytes uint64 }
		}
		Volume []struct {
			UsedBytes uint64
			PVCRef    *struct{ Name string } `json:"pvcRef"`
		}
	}
}

// Usage returns the disk space of each pod on the node.
func (s Summary) Usage() (pods []PodUsage) {
	for _, p := range s.Pods {
		u := PodUsage{Namespace: p.PodRef.Namespace, Name: p.PodRef.Name}
		for _, c := range p.Containers {
			u.WritableBytes += c.Rootfs.UsedBytes
			u.LogBytes += c.Logs.UsedBytes
		}
		for _, v := range p.Volume {
			if v.PVCRef == nil {
				u.VolumeBytes += v.UsedBytes
			}
		}
		pods = append(pods, u)
	}
	return pods
}
