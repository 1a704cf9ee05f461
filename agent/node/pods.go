package node

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/distribution/reference"

	"github.com/ebb-agent/ebb/policy/container"
	"github.com/ebb-agent/ebb/runtime/cri"
	"github.com/ebb-agent/ebb/runtime/inventory"
	"github.com/ebb-agent/ebb/runtime/kube"
)

// podsTimeout bounds a question to the source of pods: a removal waits for it.
const podsTimeout = 2 * time.Second

// errNoPods is what a configuration without a source of pods says.
var errNoPods = errors.New("pods.source is none")

// podBook is what the loop knows of the pods bound to this node.
type podBook struct {
	latest kube.Pods
	// wanted is who wants an image, by its name as the runtime writes it. It
	// outlives a source that cannot be reached: what was wanted still is.
	wanted map[string][]string
}

// readPods asks the source. Without an answer nothing may be taken for gone.
func (a *Agent) readPods(ctx context.Context) (kube.Pods, error) {
	if a.pods == nil {
		return kube.Pods{}, errNoPods
	}
	ctx, cancel := context.WithTimeout(ctx, podsTimeout)
	defer cancel()
	pods, err := a.pods.Pods(ctx)
	if err != nil {
		a.metrics.podsUp.Set(0)
		a.said.once(a.log, "pods", slog.LevelWarn, "the pods of this node are not known; none is taken for gone", "source", a.cfg.Pods.Source, "error", err)
		return kube.Pods{}, err
	}
	a.metrics.podsUp.Set(1)
	a.said.clear(a.log, "pods", "the pods of this node are known again")
	a.podBook = podBook{latest: pods, wanted: wantedImages(pods)}
	return pods, nil
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
func (b *podBook) wantedBy(i inventory.Image) []string {
	by := slices.Clone(b.wanted[i.ID])
	for _, name := range i.References {
		by = append(by, b.wanted[name]...)
	}
	slices.Sort(by)
	return slices.Compact(by)
}

// policyPods are the pods as the policy for containers wants them.
func policyPods(pods kube.Pods) []container.Pod {
	list := make([]container.Pod, 0, len(pods.List))
	for _, p := range pods.List {
		list = append(list, container.Pod{UID: p.UID, Deleting: p.Deleting, Ended: p.Ended, Evicted: p.Evicted})
	}
	return list
}
