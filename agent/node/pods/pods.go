// Package pods knows which pods are bound to this node, and which images they want.
// What they want outlives a source that cannot be reached, and the agent: while a
// question has no answer the latest one holds, and no pod is taken for gone.
package pods

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/distribution/reference"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/cri"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// timeout bounds a question to the source of pods: a removal waits for it.
const timeout = 2 * time.Second

const (
	// AskFirst and askMost bound the time between two questions to a source that does not
	// answer, while images stay for that on a disk that needs them gone.
	AskFirst = 5 * time.Second
	askMost  = 5 * time.Minute
)

// errNone is what a configuration without a source of pods says.
var errNone = errors.New("pods.source is none")

// Source knows which pods are bound to this node; runtime/kube has two.
type Source interface {
	Run(ctx context.Context, changed chan<- struct{}) error
	Pods(ctx context.Context) (kube.Pods, error)
	Pass() kube.Pass
}

// hurrier is a source whose first answer can wait for this node's turn.
type hurrier interface {
	// Hurry has it asked for at once. The channel is closed when there is one; nil: it does not wait.
	Hurry() <-chan struct{}
}

// Options is what Pods are made of.
type Options struct {
	Source     Source // nil: nobody knows
	Name       string // of the source
	Now        func() time.Time
	Conditions *condition.Set
	Outside    func(f func()) // calls f, which takes long, without the lock that guards the Pods
	Back       func()         // the source answers again
	Changed    func()         // what pods want did
}

// Pods are those bound to this node. One lock guards them, which Read gives up while it waits
// for the source.
type Pods struct {
	Options
	known    prometheus.Gauge
	asked    uint64              // questions
	heard    uint64              // the latest of them that has ended
	unknown  bool                // it has no answer
	answered time.Time           // the latest one that had
	wanted   map[string][]string // by the name of an image, or its ID
	pause    time.Duration       // until it is asked again because images stay for that
	hung     error               // why it did not answer in time, and until when it is not asked again
	hungTill time.Time
}

// New registers the metric.
func New(r *prometheus.Registry, o Options) *Pods {
	f := program.Factory{Registry: r, Subsystem: "node"}
	return &Pods{Options: o, known: f.Gauge("pods_source_up", "1 while the source of pods answers. At 0 no pod counts as gone.")}
}

// Restore takes over what was saved of the latest answer.
func (p *Pods) Restore(r state.Records) { p.answered, p.wanted = r.Meta.PodsAnswered, r.Wanted }

// Save puts it into the records.
func (p *Pods) Save(r *state.Records) { r.Meta.PodsAnswered, r.Wanted = p.answered, p.wanted }

// Pass asks for pods that are gone; nil if nobody knows pods. It may be used by others
// than the loop.
func (p *Pods) Pass() kube.Pass {
	if p.Source == nil {
		return nil
	}
	return p.Source.Pass()
}

// Read asks the source. Without an answer nothing may be taken for gone, and what was
// wanted still is.
func (p *Pods) Read(ctx context.Context) (kube.Pods, error) {
	if p.Source == nil {
		return kube.Pods{}, errNone
	}
	if p.hung != nil && p.Now().Before(p.hungTill) {
		return kube.Pods{}, p.hung // as unknown as they were; each group of removals would wait for it
	}
	within, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	asked, began := p.Now(), time.Now()
	p.asked++
	number := p.asked
	var pods kube.Pods
	var err error
	p.Outside(func() { pods, err = p.Source.Pods(within) })
	if number < p.heard {
		return pods, err // a later question has ended already
	}
	p.heard, p.hung = number, nil
	if err != nil {
		if within.Err() != nil && ctx.Err() == nil {
			p.hung, p.hungTill = err, p.Now().Add(AskFirst)
		}
		p.unknown = true
		p.known.Set(0)
		if !errors.Is(err, kube.ErrNotYet) { // which is how each start begins
			p.Conditions.Begin("pods", slog.LevelWarn, "the pods of this node are not known; none is treated as gone",
				"source", p.Name, "error", err, "images", p.countsMeanwhile())
		}
		return kube.Pods{}, err
	}
	p.known.Set(1)
	p.Conditions.End("pods", "the pods of this node are known again")
	if p.unknown {
		p.Back()
	}
	p.unknown, p.pause = false, 0
	if !pods.Heard.IsZero() {
		asked = asked.Add(-max(0, began.Sub(pods.Heard)))
	}
	p.answered = asked
	if wanted := wantedImages(pods); !maps.EqualFunc(wanted, p.wanted, slices.Equal) || p.wanted == nil {
		p.wanted = wanted
		p.Changed()
	}
	return pods, nil
}

// ReadNow is Read before a removal: a source that waits for its turn is asked at once.
func (p *Pods) ReadNow(ctx context.Context) (kube.Pods, error) {
	if answer := p.hurry(); answer != nil {
		within, cancel := context.WithTimeout(ctx, timeout)
		p.Outside(func() {
			select {
			case <-answer:
			case <-within.Done():
			}
		})
		cancel()
	}
	return p.Read(ctx)
}

// hurry returns what is closed when the source has answered; nil if it does not wait for its turn.
func (p *Pods) hurry() <-chan struct{} {
	if s, ok := p.Source.(hurrier); ok {
		return s.Hurry()
	}
	return nil
}

// countsMeanwhile says which images count as wanted while the source does not answer.
func (p *Pods) countsMeanwhile() string {
	if p.answered.IsZero() {
		return "no answer is known: those that arrived within " + image.UnansweredAge.String() + " stay"
	}
	return "those that pods wanted " + p.Now().Sub(p.answered).Round(time.Second).String() + " ago stay, and those that arrived since"
}

// AskAgain is when to put the next question, if images that are needed gone stay for the
// lack of an answer; the zero time if not. Not every source tells that it has one.
func (p *Pods) AskAgain(stay bool) time.Time {
	if !p.unknown || !stay {
		p.pause = 0
		return time.Time{}
	}
	p.hurry()
	p.pause = min(max(2*p.pause, AskFirst), askMost)
	return p.Now().Add(p.pause)
}

// Policy is the policy for images' view of the pods.
func (p *Pods) Policy() image.Pods { return image.Pods{Unknown: p.unknown, Answered: p.answered} }

// Want lists who wants an image, by any of its names or its ID; each once.
func (p *Pods) Want(i inventory.Image) []string {
	if p.Source == nil {
		return nil // an answer of another configuration
	}
	by := slices.Clone(p.wanted[i.ID])
	for _, name := range i.References {
		by = append(by, p.wanted[name]...)
	}
	slices.Sort(by)
	return slices.Compact(by)
}

// Keep says why an image that arrived at that time stays for the sake of pods, as they
// were read last; "" if it does not.
func (p *Pods) Keep(i inventory.Image, arrived time.Time) string {
	if by := p.Want(i); len(by) > 0 {
		return "wanted by " + by[0]
	}
	return p.Policy().MayWant(arrived, p.Now())
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
