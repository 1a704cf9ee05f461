package node

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/runtime/fake"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// happening is what others do at some moment of a run.
type happening struct {
	percent uint64 // they bring the disk there; 0: they do not
	wants   int    // a pod wants that image, and no other; -1: no pod wants any
	pods    bool   // what pods want changes
}

// turns watches a run as an oracle that knows only the order of the images, and which pods want.
type turns struct {
	*world
	ids    []string    // the oldest first
	script []happening // of the coming moments
	moment int
	wanted int            // -1: none
	last   []int          // when a pod last wanted each image
	taken  map[string]int // when each image lost its names
	gone   int            // removals that were judged
	wrong  string
}

// next is another moment of the run, at which something may happen.
func (o *turns) next() {
	o.moment++
	o.judge()
	if o.wanted >= 0 {
		o.last[o.wanted] = o.moment
	}
	if len(o.script) == 0 {
		return
	}
	h := o.script[0]
	// No more than the images can free, but for two: on a hold other rules count.
	most := 75 + 2*uint64(max(0, len(o.ids)-len(o.rt.Removed())-2))
	if o.script = o.script[1:]; h.percent > 0 {
		o.others(min(h.percent, most))
	}
	if !h.pods {
		return
	}
	o.pods.mu.Lock() // without news: each run asks by itself
	defer o.pods.mu.Unlock()
	if o.wanted, o.pods.list = h.wants, nil; h.wants >= 0 {
		o.last[h.wants] = o.moment
		o.pods.list = []kube.Pod{{UID: "1", Images: []string{fmt.Sprintf("i%02d", h.wants)}}}
	}
}

// judge compares the latest removals with the order: no image goes before one that was used longer ago, unless
// a pod wanted that one since the younger one lost its names.
func (o *turns) judge() {
	removed := o.rt.Removed()
	for ; o.gone < len(removed); o.gone++ {
		id := removed[o.gone]
		for n, older := range o.ids {
			if older == id {
				break
			}
			if !slices.Contains(removed[:o.gone], older) && o.last[n] < o.taken[id] && o.wrong == "" {
				o.wrong = fmt.Sprintf("i%02d went before i%02d, whose turn it was", slices.Index(o.ids, id), n)
			}
		}
	}
}

// Whatever others write and pods want in the middle of a run, an image that was put back has its old turn.
func TestAnyTurn(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const images = 8
		script := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) happening {
			h := happening{pods: rapid.Bool().Draw(r, "pods"), wants: rapid.IntRange(-1, images-1).Draw(r, "wants")}
			if rapid.Bool().Draw(r, "writes") {
				h.percent = rapid.Uint64Range(70, 90).Draw(r, "percent")
			}
			return h
		}), 1, 40).Draw(r, "script")
		wrong, log := "", ""
		inWorld(t, func(w *world) {
			w.pods = &fakePods{}
			o := &turns{world: w, ids: w.many(images), script: script, wanted: -1, last: make([]int, images), taken: make(map[string]int)}
			w.rt.SetFaults(fake.Faults{
				During:   func(id string) { o.next(); o.taken[id] = o.moment },
				Restored: func(string) { o.next() },
			})
			w.disk.during = o.next
			w.fill(86)
			w.pass(time.Minute)
			o.judge()
			w.down()
			if wrong = o.wrong; wrong != "" {
				log = fmt.Sprint(w.logs)
			}
		})
		if wrong != "" {
			r.Fatalf("%s\n%s", wrong, log)
		}
	})
}
