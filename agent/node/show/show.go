// Package show makes the pages about images. A [View] is taken under the agent's lock and does not
// change after that. So a page of thousands of images is made without the lock.
package show

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/agent/node/clock"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// View is a snapshot of what pages about images show. It is never changed.
type View struct {
	Time, Looked time.Time // Looked: when the images were listed
	Mode         string
	Paused       *page.Pause

	Listed  []inventory.Image
	Graph   image.Graph
	Known   map[string]inventory.Image // by ID: as listed last; a run may have removed some since
	Records map[string]state.Image     // by ID
	Read    map[string]float64         // by ID: the percentage of its bytes that was ever read
}

// Images returns every image with its decision.
func (v View) Images(plan image.Plan) page.Images {
	accounts := v.Account()
	return page.Images{
		Time: v.Time, Looked: v.Looked, Mode: v.Mode, Paused: v.Paused,
		Images: v.decided(plan, accounts.Images), Totals: totals(accounts),
	}
}

// Plan returns the page of a plan: what would be removed, and what stays. The caller adds the
// filesystem, and how much can be freed.
func (v View) Plan(plan image.Plan) page.Plan {
	images, goes := v.decided(plan, v.Account().Images), len(plan.Remove)
	return page.Plan{
		Time: v.Time, Looked: v.Looked, Mode: v.Mode, Paused: v.Paused, Digest: plan.Digest(), Hold: Hold(plan.Hold),
		Need: page.Size{Bytes: plan.NeedBytes, Inodes: plan.NeedInodes}, Remove: images[:goes:goes], Keep: images[goes:],
	}
}

// Why returns the explanation of one image. The caller adds its history.
func (v View) Why(e image.Explanation) page.Why {
	size, _ := image.AccountOf(v.Graph, v.images(), e.ImageID)
	w := page.Why{
		Time: v.Time, Looked: v.Looked, Mode: v.Mode, Paused: v.Paused, Image: v.image("keep", e.Decision, &size),
		Place: e.Place, Of: e.Of, InTurn: page.Size(e.InTurn), History: []page.HistoryEntry{},
	}
	if e.Goes {
		w.Image.Verdict = "remove"
	}
	for _, r := range e.Rules {
		w.Rules = append(w.Rules, page.Rule{Reason: string(r.Reason), State: r.State.String(), Text: r.Text, Changes: clock.OrNil(r.Changes)})
	}
	return w
}

// Account returns how much space each image takes, and what takes the rest of the store.
func (v View) Account() image.Accounts { return image.Account(v.Graph, v.images()) }

// images returns the listed images, with the fields on which their sizes depend.
func (v View) images() []image.Image {
	images := make([]image.Image, len(v.Listed))
	for n := range v.Listed {
		i := &v.Listed[n]
		images[n] = image.Image{ID: i.ID, Roots: i.Roots, NominalBytes: i.NominalBytes}
	}
	return images
}

// decided returns the images of a plan: first those to be removed, in that order, then the others,
// least recently used first.
func (v View) decided(plan image.Plan, sizes []image.ImageAccount) []page.Image {
	list, s := make([]page.Image, 0, len(plan.Remove)+len(plan.Keep)), sorted{list: sizes}
	for _, d := range plan.Remove {
		list = append(list, v.image("remove", d, s.of(d.ImageID)))
	}
	turns := make([]turn, len(plan.Keep))
	for n, d := range plan.Keep {
		record := v.Records[d.ImageID]
		used := record.LastUsed
		if used.IsZero() {
			used = record.Observed // as the policy counts it
		}
		turns[n] = turn{used, n, s.of(d.ImageID)}
	}
	slices.SortFunc(turns, func(a, b turn) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.at, b.at)) })
	for _, t := range turns {
		list = append(list, v.image("keep", plan.Keep[t.at], t.size))
	}
	return list
}

// sorted are the sizes of images in the order of their IDs. Most are asked for in that order.
type sorted struct {
	list []image.ImageAccount
	next int
}

// of returns the size of an image; a zero one for an image that is not among them.
func (s *sorted) of(id string) *image.ImageAccount {
	if s.next >= len(s.list) || s.list[s.next].ImageID != id {
		s.next, _ = slices.BinarySearchFunc(s.list, id, func(a image.ImageAccount, id string) int { return strings.Compare(a.ImageID, id) })
	}
	if s.next < len(s.list) && s.list[s.next].ImageID == id {
		s.next++
		return &s.list[s.next-1]
	}
	return &image.ImageAccount{}
}

// turn is the sort key of an image that stays. It is small; a page.Image is not.
type turn struct {
	used time.Time
	at   int // in Plan.Keep
	size *image.ImageAccount
}

func (v View) image(verdict string, d image.Decision, size *image.ImageAccount) page.Image {
	i, record := v.Known[d.ImageID], v.Records[d.ImageID]
	row := page.Image{
		ID: d.ImageID, References: i.References, Verdict: verdict, Reason: string(d.Reason), Detail: d.Detail,
		FreesBytes: d.FreesBytes, FreesInodes: d.FreesInodes, LastUsed: clock.OrNil(record.LastUsed), Arrived: record.Arrived,
		UsedBy: i.UsedBy, LastUser: record.UsedBy, PulledAgain: record.Again,
		Own: page.Size(size.Own), Shared: page.Size(size.Shared), Total: page.Size(size.Total), Unmeasured: size.Unmeasured, KubeletBytes: size.NominalBytes,
	}
	if share, known := v.Read[d.ImageID]; known {
		row.ReadPercent = &share
	}
	return row
}

func totals(a image.Accounts) page.Totals {
	entries := func(list []image.Entry) []page.Entry {
		out := []page.Entry{}
		for _, e := range list {
			out = append(out, page.Entry{By: e.By, Size: page.Size(e.Size), Count: e.Count, Unmeasured: e.Unmeasured, Oldest: clock.OrNil(e.Oldest)})
		}
		return out
	}
	return page.Totals{
		Images: page.Size(a.Held), Others: entries(a.Others), Nobody: entries(a.Nobody), Total: page.Size(a.Total),
		EmptyImages: a.Empty.Count, KubeletBytes: a.NominalBytes, Unread: a.Unread,
	}
}

// Hold returns why a low threshold cannot be reached; nil if it can.
func Hold(h *image.Hold) *page.Hold {
	if h == nil {
		return nil
	}
	hold := &page.Hold{Since: h.Since, Bytes: h.Bytes, Inodes: h.Inodes, HeldBy: []page.HeldBy{}}
	for _, s := range h.Space {
		hold.HeldBy = append(hold.HeldBy, page.HeldBy{By: s.By, Images: s.Images, Size: page.Size{Bytes: s.Bytes, Inodes: s.Inodes}})
	}
	return hold
}

// LargestFirst sorts images by the bytes that only they need, most first.
func LargestFirst(images []page.Image) {
	slices.SortStableFunc(images, func(i, j page.Image) int { return cmp.Compare(j.Own.Bytes, i.Own.Bytes) })
}
