// Package pods knows which pods are bound to this node, and which images they want. The latest
// answer survives an unreachable source and a restart of the agent. While a query has no answer,
// the latest answer holds, and no pod is treated as gone.
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

// timeout bounds a query to the source of pods: a removal waits for it.
const timeout = 2 * time.Second

const (
	// AskFirst and askMost bound the time between two queries to a source that does not answer,
	// while images stay for that on a disk that needs them removed.
	AskFirst = 5 * time.Second
	askMost  = 5 * time.Minute
)

// errNone is the error of a configuration without a source of pods.
var errNone = errors.New("pods.source is none")

// Source knows which pods are bound to this node; runtime/kube has two implementations.
type Source interface {
	Run(ctx context.Context, changed chan<- struct{}) error
	Pods(ctx context.Context) (kube.Pods, error)
	Pass() kube.Pass
}

// hurrier is a source whose first answer can wait for this node's turn.
type hurrier interface {
	// Hurry requests the first answer at once. The channel is closed when the answer is there; nil:
	// the source does not wait for its turn.
	Hurry() <-chan struct{}
}

// Options are the dependencies of Pods.
type Options struct {
	Source     Source // nil: no pod is known
	Name       string // of the source
	Now        func() time.Time
	Conditions *condition.Set
	Outside    func(f func()) // calls f, which takes long, without the lock that guards the Pods
	Back       func()         // called when the source answers again
	Changed    func()         // called when the wanted images changed
}

// Pods are the pods bound to this node. One lock guards them. Read releases it while it waits for
// the source.
type Pods struct {
	Options
	known    prometheus.Gauge
	asked    uint64              // number of the latest query
	heard    uint64              // number of the latest query that has ended
	unknown  bool                // that query has no answer
	answered time.Time           // as of when the latest answer holds
	wanted   map[string][]string // who wants an image, by its name or ID
	pause    time.Duration       // until the next query, while images stay for lack of an answer
	hung     error               // why the source did not answer in time; no query before hungTill
	hungTill time.Time
}

// New registers the metric.
func New(r *prometheus.Registry, o Options) *Pods {
	f := program.Factory{Registry: r, Subsystem: "node"}
	return &Pods{Options: o, known: f.Gauge("pods_source_up", "1 while the source of pods answers. At 0 no pod counts as gone.")}
}

// Restore takes over the latest answer as it was saved.
func (p *Pods) Restore(r state.Records) { p.answered, p.wanted = r.Meta.PodsAnswered, r.Wanted }

// Save puts the latest answer into the records.
func (p *Pods) Save(r *state.Records) { r.Meta.PodsAnswered, r.Wanted = p.answered, p.wanted }

// Pass begins the queries of one pass of removals, for pods that are gone; nil without a source.
// Any goroutine may call it.
func (p *Pods) Pass() kube.Pass {
	if p.Source == nil {
		return nil
	}
	return p.Source.Pass()
}

// Read queries the source. Without an answer no pod may be treated as gone, and images that were
// wanted still are.
func (p *Pods) Read(ctx context.Context) (kube.Pods, error) {
	if p.Source == nil {
		return kube.Pods{}, errNone
	}
	if p.hung != nil && p.Now().Before(p.hungTill) {
		return kube.Pods{}, p.hung // still unknown; each group of removals would wait for the timeout
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
		return pods, err // a later query has ended already
	}
	p.heard, p.hung = number, nil
	if err != nil {
		if within.Err() != nil && ctx.Err() == nil {
			p.hung, p.hungTill = err, p.Now().Add(AskFirst)
		}
		p.unknown = true
		p.known.Set(0)
		if !errors.Is(err, kube.ErrNotYet) { // which each start begins with
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

// ReadNow is Read before a removal: a source that waits for its turn is queried at once.
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

// hurry returns a channel that is closed when the source has answered; nil if the source does not
// wait for its turn.
func (p *Pods) hurry() <-chan struct{} {
	if s, ok := p.Source.(hurrier); ok {
		return s.Hurry()
	}
	return nil
}

// countsMeanwhile describes which images count as wanted while the source does not answer.
func (p *Pods) countsMeanwhile() string {
	if p.answered.IsZero() {
		return "no answer is known: those that arrived within " + image.UnansweredAge.String() + " stay"
	}
	return "those that pods wanted " + p.Now().Sub(p.answered).Round(time.Second).String() + " ago stay, and those that arrived since"
}

// AskAgain returns when to send the next query, if images that must be removed stay for lack of an
// answer; the zero time if none do. Not every source signals that it has an answer.
func (p *Pods) AskAgain(stay bool) time.Time {
	if !p.unknown || !stay {
		p.pause = 0
		return time.Time{}
	}
	p.hurry()
	p.pause = min(max(2*p.pause, AskFirst), askMost)
	return p.Now().Add(p.pause)
}

// Policy returns the view of the pods that the policy for images needs.
func (p *Pods) Policy() image.Pods { return image.Pods{Unknown: p.unknown, Answered: p.answered} }

// Want lists the pods that want an image, by any of its names or its ID; each once.
func (p *Pods) Want(i inventory.Image) []string {
	if p.Source == nil {
		return nil // the saved answer is of another configuration
	}
	by := slices.Clone(p.wanted[i.ID])
	for _, name := range i.References {
		by = append(by, p.wanted[name]...)
	}
	slices.Sort(by)
	return slices.Compact(by)
}

// Keep returns why pods, as they were last read, keep an image that arrived at that time; "" if
// they do not.
func (p *Pods) Keep(i inventory.Image, arrived time.Time) string {
	if by := p.Want(i); len(by) > 0 {
		return "wanted by " + by[0]
	}
	return p.Policy().MayWant(arrived, p.Now())
}

// wantedImages lists which pods want which image. A pod that has ended starts nothing more. It
// makes no difference whether containers run, wait or are in back-off: the image of a running one
// is in use anyway.
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

// storedName returns the name under which the CRI stores an image of a pod's spec: "busybox" is
// docker.io/library/busybox:latest, and of a name with tag and digest the digest counts. An ID, or
// a text that is no reference, is returned as it is.
func storedName(name string) string {
	if cri.ValidID(name) {
		return name // not parsed: as a reference it names an image "sha256"
	}
	ref, err := reference.ParseDockerRef(name)
	if err != nil {
		return name
	}
	return ref.String()
}
