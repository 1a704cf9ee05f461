package show

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// ImageOrders are the orders in which images can be sorted.
var ImageOrders = []string{"used", "size", "own", "name", "freed"}

// ImageOptions choose images and their order.
type ImageOptions struct {
	Sort   string // one of ImageOrders; "": as the agents would remove them
	Unused bool   // only images that no rule protects
}

// placed is an image of a node. now is the time of the node's page.
type placed struct {
	page.Image
	node string
	now  time.Time
}

// spare are the reasons for which an image is kept although no rule protects it.
var spare = []string{"not_needed", "hold", "frees_nothing", "futile"}

// unprotected reports whether an image may be removed as soon as the disk needs the space.
func unprotected(i page.Image) bool { return i.Verdict == "remove" || slices.Contains(spare, i.Reason) }

// Next returns the images that may be removed: first those that go now, then those that go when the
// disk needs the space, in the order in which they would go.
func Next(p page.Images) []page.Image {
	return slices.DeleteFunc(slices.Clone(p.Images), func(i page.Image) bool { return !unprotected(i) })
}

func (o ImageOptions) choose(nodes []Node[page.Images]) (list []placed) {
	for _, n := range answered(nodes) {
		for _, i := range n.Page.Images {
			if !o.Unused || unprotected(i) {
				list = append(list, placed{i, n.Name, n.Page.Time})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b placed) int {
		switch o.Sort {
		case "used":
			return byUse(a, b)
		case "size":
			return cmp.Compare(b.Total.Bytes, a.Total.Bytes)
		case "own":
			return cmp.Compare(b.Own.Bytes, a.Own.Bytes)
		case "freed":
			return cmp.Compare(b.FreesBytes, a.FreesBytes)
		case "name":
			return cmp.Compare(imageName(a.ID, a.References), imageName(b.ID, b.References))
		}
		return 0
	})
	return list
}

// byUse orders images by their last use: the longest unused first, then those never seen in use,
// then those in use.
func byUse(a, b placed) int {
	rank := func(p placed) int {
		switch {
		case len(p.UsedBy) > 0:
			return 2
		case p.LastUsed == nil:
			return 1
		}
		return 0
	}
	if x := cmp.Compare(rank(a), rank(b)); x != 0 || a.LastUsed == nil || b.LastUsed == nil {
		return x
	}
	return a.LastUsed.Compare(*b.LastUsed)
}

// Images shows the images of nodes as one table.
func Images(w io.Writer, v View, nodes []Node[page.Images], o ImageOptions) error {
	t := &text{View: v}
	all := answered(nodes)
	for i, n := range all {
		if i == MostBlocks {
			t.line("and %d nodes more", len(all)-MostBlocks)
			break
		}
		t.line("%s: %s, %s", Clean(n.Name), plural(len(n.Page.Images), "image"), asOf(n.Page.Time, n.Page.Looked, n.Page.Mode, n.Page.Paused))
	}
	list := newTable(column{name: "NODE", empty: true}, column{name: "IMAGE", tail: true}, column{name: "LAST USED", right: true}, column{name: "BY", spare: 4},
		column{name: "OWN", spare: 1, right: true}, column{name: "SHARED", spare: 5, right: true}, column{name: "READ", spare: 6, right: true},
		column{name: "VERDICT", spare: 3}, column{name: "REASON", spare: 2})
	chosen := o.choose(nodes)
	for _, p := range chosen {
		node := p.node
		if len(nodes) == 1 {
			node = ""
		}
		list.add(append([]string{node}, p.cells()...)...)
	}
	if len(chosen) > 0 {
		t.WriteByte('\n')
		list.write(t, "")
	}
	if len(all) > 0 {
		t.WriteByte('\n')
		imageTotals(t, all, chosen)
	}
	silent(t, nodes)
	_, err := io.WriteString(w, t.String())
	return err
}

func (p placed) cells() []string {
	name := imageName(p.ID, p.References)
	if n := len(p.References); n > 1 {
		name += fmt.Sprintf(" +%d", n-1)
	}
	by := user(p.Image)
	if n := len(p.UsedBy) - 1; n > 0 {
		by += fmt.Sprintf(" +%d", n)
	}
	read := ""
	if p.ReadPercent != nil {
		read = fmt.Sprintf("%.0f%%", *p.ReadPercent)
	}
	return []string{name, p.used(), by, p.measured(p.Own.Bytes), p.measured(p.Shared.Bytes), read, p.Verdict, p.Reason}
}

// used describes the last use of an image.
func (p placed) used() string {
	switch {
	case len(p.UsedBy) > 0:
		return "in use"
	case p.LastUsed != nil:
		return age(p.now, *p.LastUsed)
	}
	return "never seen"
}

// user returns the pod, the container or another user that uses an image now, or that used it last.
func user(i page.Image) string {
	who := i.LastUser
	// People know pods. If no container of the image is left, the latest pod does not use it now.
	if len(i.UsedBy) > 0 && (who == "" || !strings.HasPrefix(i.UsedBy[0], "container ")) {
		who = i.UsedBy[0]
	}
	return containerID.ReplaceAllString(who, "$1")
}

// measured formats a size. A + marks a lower bound: the size of some layers is unknown.
func (p placed) measured(bytes uint64) string {
	if p.Unmeasured > 0 {
		return size(bytes) + "+"
	}
	return size(bytes)
}

// imageTotals writes the totals of all nodes.
func imageTotals(t *text, nodes []Node[page.Images], shown []placed) {
	var sum page.Totals
	var others, nobody page.Size
	var unread []string
	unmeasured := 0
	for _, n := range nodes {
		totals := n.Page.Totals
		sum.Images, sum.Total = add(sum.Images, totals.Images), add(sum.Total, totals.Total)
		sum.KubeletBytes += totals.KubeletBytes
		sum.EmptyImages += totals.EmptyImages
		others, nobody = add(others, entries(totals.Others)), add(nobody, entries(totals.Nobody))
		unread = append(unread, totals.Unread...)
	}
	for _, p := range shown {
		unmeasured += p.Unmeasured
	}
	t.line("%s shown. All images of %s take %s; by the kubelet's count %s. Held only by containers, leases and others: %s. Held by nothing: %s. The whole store: %s.",
		plural(len(shown), "image"), plural(len(nodes), "node"), takes(sum.Images), size(sum.KubeletBytes), takes(others), takes(nobody), takes(sum.Total))
	if unmeasured > 0 {
		t.line("A size with + is a lower bound: the runtime does not know the size of %s.", plural(unmeasured, "layer"))
	}
	if sum.EmptyImages > 0 {
		t.line("The content of %s is missing: pull it again.", plural(sum.EmptyImages, "image"))
	}
	slices.Sort(unread)
	for _, u := range slices.Compact(unread) {
		t.line("Not in these sums: %s", Clean(u))
	}
}

func entries(list []page.Entry) (sum page.Size) {
	for _, e := range list {
		sum = add(sum, e.Size)
	}
	return sum
}

// ImageNames returns the names of the images that o chooses, in their order.
func ImageNames(nodes []Node[page.Images], o ImageOptions) (names []string) {
	for _, p := range o.choose(nodes) {
		names = append(names, imageName(p.ID, p.References))
	}
	return names
}

// ChooseImages returns a copy of nodes. Each page of the copy has only the images that o chooses,
// in their order.
func ChooseImages(nodes []Node[page.Images], o ImageOptions) []Node[page.Images] {
	list := slices.Clone(nodes)
	for i, n := range list {
		if n.Err != nil {
			continue
		}
		list[i].Page.Images = []page.Image{}
		for _, p := range o.choose([]Node[page.Images]{n}) {
			list[i].Page.Images = append(list[i].Page.Images, p.Image)
		}
	}
	return list
}

// Completions returns the references and IDs of images that begin with the word that a shell
// completes. It leaves out names with characters that a terminal interprets.
func Completions(p page.Images, word string) (names []string) {
	for _, i := range p.Images {
		for _, r := range append(slices.Clone(i.References), i.ID) {
			if strings.HasPrefix(r, word) && Clean(r) == r {
				names = append(names, r)
			}
		}
	}
	return names
}

// containerID matches an ID that a container runtime gives a container. Users know a container by
// the first 12 digits.
var containerID = regexp.MustCompile(`\b([0-9a-f]{12})[0-9a-f]{52}\b`)
