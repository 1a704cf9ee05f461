package node

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/distribution/reference"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/cri"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// podsTimeout bounds a question to the source of pods: a removal waits for it.
const podsTimeout = 2 * time.Second

// errNoPods is what a configuration without a source of pods says.
var errNoPods = errors.New("pods.source is none")

// podBook is what the loop knows of the pods bound to this node. Who wants which image
// is in the records: it outlives a source that cannot be reached, and the agent.
type podBook struct {
	latest  kube.Pods
	unknown bool          // the latest question has no answer
	pause   time.Duration // until it is asked again because images stay for that
}

// readPods asks the source. Without an answer nothing may be taken for gone, and what
// was wanted still is.
func (a *Agent) readPods(ctx context.Context) (kube.Pods, error) {
	if a.pods == nil {
		return kube.Pods{}, errNoPods
	}
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	asked, began := a.clock.now(), time.Now()
	pods, err := a.pods.Pods(ctx)
	if err != nil {
		a.podBook.unknown = true
		a.metrics.podsUp.Set(0)
		a.said.once(a.log, "pods", slog.LevelWarn, "the pods of this node are not known; none is taken for gone",
			"source", a.cfg.Pods.Source, "error", err, "images", a.countsMeanwhile())
		return kube.Pods{}, err
	}
	a.metrics.podsUp.Set(1)
	a.said.clear(a.log, "pods", "the pods of this node are known again")
	if a.podBook.unknown {
		a.podsKnown()
	}
	a.podBook = podBook{latest: pods}
	if !pods.Heard.IsZero() {
		asked = asked.Add(-max(0, began.Sub(pods.Heard)))
	}
	a.rec.Meta.PodsAnswered = asked
	if wanted := wantedImages(pods); !maps.EqualFunc(wanted, a.rec.Wanted, slices.Equal) || a.rec.Wanted == nil {
		a.rec.Wanted = wanted
		a.alarms.sooner(alarmSave, a.clock.now().Add(wantedPause)) // a look may come first
	}
	return pods, nil
}

const (
	// wantedPause is how long changes of what pods want are collected before they are saved.
	wantedPause = 5 * time.Second

	// askFirst and askMost bound the time between two questions to a source that does not
	// answer, while images stay for that on a disk that needs them gone.
	askFirst = 5 * time.Second
	askMost  = 5 * time.Minute
)

// countsMeanwhile says which images count as wanted while the source does not answer.
func (a *Agent) countsMeanwhile() string {
	at := a.rec.Meta.PodsAnswered
	if at.IsZero() {
		return "no answer is known: those that arrived within " + image.UnansweredAge.String() + " stay"
	}
	return "those that pods wanted " + a.clock.now().Sub(at).Round(time.Second).String() + " ago stay, and those that arrived since"
}

// podsKnown has what stayed for the lack of an answer decided on.
func (a *Agent) podsKnown() {
	if keptUnknown(a.stores) {
		a.holdsMayEnd()
		a.alarms.sooner(alarmEvents, a.clock.now().Add(eventPause))
	}
}

// askAgain plans the next question if images that are needed gone stay for the lack of
// an answer. Not every source tells that it has one.
func (a *Agent) askAgain() {
	b := &a.podBook
	if !b.unknown || !keptUnknown(a.stores) {
		b.pause = 0
		return
	}
	b.pause = min(max(2*b.pause, askFirst), askMost)
	a.alarms.sooner(alarmRetry, a.clock.now().Add(b.pause))
}

// keptUnknown: space is needed, and an image stays only because pods are not known.
func keptUnknown(stores []*store) bool {
	return slices.ContainsFunc(stores, func(s *store) bool {
		return (s.plan.NeedBytes > 0 || s.plan.NeedInodes > 0) &&
			slices.ContainsFunc(s.plan.Keep, func(d image.Decision) bool { return d.Reason == image.KeptPodsUnknown })
	})
}

// podsNow is what the policy is told of the pods.
func (a *Agent) podsNow() image.Pods {
	return image.Pods{Unknown: a.podBook.unknown, Answered: a.rec.Meta.PodsAnswered}
}

// wantedImages lists which pods want which image. A pod that has ended starts
// nothing any more. Containers that run, wait or are in back-off are all the same
// here: what runs is in use anyhow.
func wantedImages(pods kube.Pods) map[string][]string {
	wanted := make(map[string][]string)
	for _, p := range pods.List {
		if p.Ended {
			continue
		}
		for _, name := range p.Images {
			name = storedName(name)
			wanted[name] = append(wanted[name], "pod "+p.Namespace+"/"+p.Name)
		}
	}
	return wanted
}

// storedName is how the CRI stores what a pod calls an image: "busybox" is
// docker.io/library/busybox:latest, and of a name with both the digest counts. An
// ID, or what is no reference at all, stays as it is.
func storedName(name string) string {
	if cri.ValidID(name) {
		return name // and no image named "sha256", as a reference would have it
	}
	ref, err := reference.ParseDockerRef(name)
	if err != nil {
		return name
	}
	return ref.String()
}

// wantedBy is who wants an image, by any of its names or its ID; each once.
func (a *Agent) wantedBy(i inventory.Image) []string {
	if a.pods == nil {
		return nil // an answer of another configuration
	}
	by := slices.Clone(a.rec.Wanted[i.ID])
	for _, name := range i.References {
		by = append(by, a.rec.Wanted[name]...)
	}
	slices.Sort(by)
	return slices.Compact(by)
}

// podsKeep says why an image stays for the sake of pods, as they were read last; "" if
// it does not.
func (a *Agent) podsKeep(i inventory.Image) string {
	if by := a.wantedBy(i); len(by) > 0 {
		return "wanted by " + by[0]
	}
	return a.podsNow().MayWant(a.rec.Images[i.ID].Arrived, a.clock.now())
}

// policyPods are the pods as the policy for containers wants them.
func policyPods(pods kube.Pods) []container.Pod {
	list := make([]container.Pod, 0, len(pods.List))
	for _, p := range pods.List {
		list = append(list, container.Pod{UID: p.UID, Deleting: p.Deleting, Ended: p.Ended, Evicted: p.Evicted})
	}
	return list
}
