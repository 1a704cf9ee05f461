// Package startrace races a real kubelet, which starts pods, against ebb, which removes the
// images that they may be about to start from (kubernetes issue 123631).
//
// A node has room for fewer images than there are. A missing image is imported when its turn
// comes, as a pull would, and pushes the disk over its high threshold again. So reclaim runs
// all the time while pods start, run and end, and sometimes the agent is killed in the middle
// of it.
//
// A pod whose image was on the node when the pod was bound must run. If its kubelet found no
// image for a moment, that is a transient failure. If the pod does not run within Patience, it
// is a permanent one.
//
// Pods are bound at the kubelet's API server. Without one they are static pods, bound by the
// appearance of their manifest. Half of the pods never pull; the others would, but no registry
// exists.
//
// An image that existed just before its pod was bound, and not right after, was withdrawn in
// between. Such a pod is not required to run, because the order of the two events is unknown.
// Its outcome is counted separately.
package startrace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
)

const mib = 1 << 20

// Options describe a race. All fields but Kill, KillEvery, Images, AtOnce, Patience and Say are
// required.
type Options struct {
	Node    *node.Node
	Kubelet *peers.Kubelet
	Starts  int    // number of pods
	Seed    uint64 // seed of all random choices

	// Kill kills the agent by SIGKILL and starts the next one; nil: the agent is never killed.
	// Kill is called about once in KillEvery starts, and at least once.
	Kill      func(context.Context) error
	KillEvery int

	Images   int           // default 30
	AtOnce   int           // default 4
	Patience time.Duration // for a pod to run; default 90 s
	Say      func(format string, args ...any)
}

// Result counts the outcomes of the pods.
type Result struct {
	Started     int // pods whose image existed when they were bound
	Permanently int // of Started: failed
	Transiently int // of Started: failed at first, then ran
	Missing     int // pods bound without their image; not in Started

	Withdrawn    int // of Missing: the image existed before the pod was bound
	WithdrawnRan int // of Withdrawn: ran nevertheless; the others could not

	Brought  int // images imported again because they were removed
	NoSpace  int // imports that failed on a full disk
	DiskFull int // pods with their image that failed on a full disk
	Kills    int
	Failures []string // details of the permanent failures
}

// ImageBytes is about the size of one image's own data on the disk.
const ImageBytes = 6 * mib

// race is one run.
type race struct {
	Options
	mu     sync.Mutex
	random *rand.Rand
	places []sync.Mutex // one per image: held while the image is imported
	result Result
	pods   map[string]peers.PodStatus // by name
	failed map[string]string          // message of pods that waited for an image, by name
	news   chan struct{}              // closed and replaced when pods were read
}

// Run starts all pods and returns once each one ran, failed or was given up.
func Run(ctx context.Context, o Options) (Result, error) {
	o.Images = cmp.Or(o.Images, 30)
	o.AtOnce = cmp.Or(o.AtOnce, 4)
	o.Patience = cmp.Or(o.Patience, 90*time.Second)
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	r := &race{
		Options: o, random: rand.New(rand.NewPCG(o.Seed, 1)), places: make([]sync.Mutex, o.Images),
		failed: map[string]string{}, news: make(chan struct{}),
	}
	watch, stop := context.WithCancel(ctx)
	var watcher errgroup.Group
	watcher.Go(func() error { return r.watch(watch) })
	err := r.all(ctx)
	stop()
	err = errors.Join(err, watcher.Wait())
	return r.result, err
}

// all runs the pods, several at a time.
func (r *race) all(ctx context.Context) error {
	starts := make(chan int)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(starts)
		killed := false
		for n := range r.Starts {
			if r.Kill != nil && n > 0 && r.KillEvery > 0 && (r.choice(r.KillEvery) == 0 || n == r.Starts/2 && !killed) {
				killed = true
				if err := r.Kill(ctx); err != nil {
					return fmt.Errorf("kill the agent: %w", err)
				}
				r.count(func(res *Result) { res.Kills++ })
			}
			if n > 0 && n%50 == 0 {
				r.Say("%d of %d pods", n, r.Starts)
			}
			select {
			case starts <- n:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range r.AtOnce {
		g.Go(func() error {
			for n := range starts {
				if err := r.one(ctx, n); err != nil {
					return fmt.Errorf("pod %d: %w", n, err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func (r *race) choice(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n)
}

func (r *race) count(f func(*Result)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.result)
}

func imageName(i int) string { return fmt.Sprintf("race.test/image:%d", i) }

func image(i int) node.Image {
	return node.Image{
		Name: imageName(i), Cmd: []string{"/bin/true"},
		Layers: []node.Layer{{Seed: fmt.Sprint("race-", i), Bytes: ImageBytes / 2, Files: 4}},
	}
}

// one starts a pod, waits until it runs or fails, and deletes it.
func (r *race) one(ctx context.Context, n int) error {
	i := r.choice(r.Images)
	if err := r.bring(ctx, i); err != nil {
		return err
	}
	// After a random delay, so that a pod can come at any moment of a removal.
	if err := benchmark.Pause(ctx, time.Duration(r.choice(60))*time.Millisecond); err != nil {
		return err
	}
	name := fmt.Sprint("race-", n)
	policy := "Never"
	if n%2 == 0 {
		policy = "IfNotPresent"
	}
	spec := peers.PodSpec{Name: name, Image: imageName(i), RestartPolicy: "Never", PullPolicy: policy}
	before, err := r.there(ctx, i)
	if err != nil {
		return err
	}
	if err := r.bind(ctx, spec); err != nil {
		return err
	}
	there, err := r.there(ctx, i)
	if err != nil {
		return err
	}
	bound := time.Now()
	status, ran, err := r.wait(ctx, r.podName(name), i, there)
	if err != nil {
		return err
	}
	r.judge(name, imageName(i), policy, before, there, ran, status, time.Since(bound))
	return r.unbind(ctx, name)
}

// static reports whether the kubelet has no API server.
func (r *race) static() bool { return r.Kubelet.ControlPlane() == nil }

func (r *race) bind(ctx context.Context, spec peers.PodSpec) error {
	if r.static() {
		return r.Kubelet.AddStaticPod(spec.Name, spec.Manifest())
	}
	spec.Critical = true
	return r.Kubelet.CreatePod(ctx, spec)
}

func (r *race) unbind(ctx context.Context, name string) error {
	if r.static() {
		return r.Kubelet.RemoveStaticPod(name)
	}
	return r.Kubelet.DeletePod(ctx, "", name)
}

// podName returns the kubelet's name of a pod.
func (r *race) podName(name string) string {
	if r.static() {
		return name + "-" + r.Kubelet.NodeName()
	}
	return name
}

func (r *race) judge(name, image, policy string, before, there, ran bool, s peers.PodStatus, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	why, failed := r.failed[r.podName(name)]
	switch {
	case !there:
		r.result.Missing++
		if before {
			r.result.Withdrawn++
			if ran {
				r.result.WithdrawnRan++
			}
			r.Say("%s was withdrawn while %s was bound; it ran: %v, after %v", image, name, ran, took.Round(time.Millisecond))
		}
	case !ran && strings.Contains(s.Message, unix.ENOSPC.Error()):
		// The image existed, but the pod found no room for its own files: the disk filled up
		// while the agent was dead.
		r.result.DiskFull++
		r.Say("%s of %s met a full disk: %s", name, image, s.Message)
	case !ran:
		r.result.Started++
		r.result.Permanently++
		r.result.Failures = append(r.result.Failures, fmt.Sprintf("%s of %s (%s): after %v: %+v\n    %s",
			name, image, policy, took.Round(time.Millisecond), s, strings.Join(r.logged(name), "\n    ")))
	case failed:
		r.result.Started++
		r.result.Transiently++
		r.Say("%s waited %v for %s: %s", name, took.Round(time.Millisecond), image, why)
	default:
		r.result.Started++
	}
}

// logged returns the last warnings and errors in the kubelet's log about a pod.
func (r *race) logged(name string) (lines []string) {
	data, err := os.ReadFile(r.Kubelet.LogFile())
	if err != nil {
		return []string{err.Error()}
	}
	about := regexp.MustCompile(regexp.QuoteMeta(name) + `\b`)
	for line := range strings.Lines(string(data)) {
		if about.MatchString(line) && (line[0] == 'E' || line[0] == 'W') {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines[max(0, len(lines)-5):]
}

// there reports whether an image's name exists in containerd.
func (r *race) there(ctx context.Context, i int) (bool, error) {
	ctx = namespaces.WithNamespace(ctx, node.CRINamespace)
	_, err := r.Node.Client().ImageService().Get(ctx, imageName(i))
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// bring imports an image if it is missing, as soon as there is room.
func (r *race) bring(ctx context.Context, i int) error {
	r.places[i].Lock()
	defer r.places[i].Unlock()
	there, err := r.there(ctx, i)
	if there || err != nil {
		return err
	}
	r.count(func(res *Result) { res.Brought++ })
	for deadline := time.Now().Add(r.Patience); ; {
		// The disk is full if the agent was killed before it made room. A kubelet that pulls
		// tries again, too.
		_, err = r.Node.Import(ctx, node.CRINamespace, image(i))
		if err == nil || !strings.Contains(err.Error(), unix.ENOSPC.Error()) || time.Now().After(deadline) {
			break
		}
		r.count(func(res *Result) { res.NoSpace++ })
		if err := benchmark.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	gone := errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded || errdefs.IsNotFound(err)
	if gone && ctx.Err() == nil {
		return nil // removed before it was unpacked, or before CRI saw it; one notices that it is missing
	}
	return err
}

// comesBack is how long a withdrawn image may take to be restored.
const comesBack = 3 * time.Second

// wait waits until the pod runs or has succeeded, for at most Patience, and returns its status
// and whether it ran. For a pod that has failed without its image it waits only until the image
// should have been restored.
func (r *race) wait(ctx context.Context, name string, i int, there bool) (peers.PodStatus, bool, error) {
	bound, deadline := time.Now(), time.After(r.Patience)
	for {
		r.mu.Lock()
		s, news := r.pods[name], r.news
		_, failed := r.failed[name]
		r.mu.Unlock()
		if s.Phase == "Succeeded" || s.Phase == "Running" {
			return s, true, nil
		}
		if failed && !there {
			var err error
			if there, err = r.there(ctx, i); err != nil || !there && time.Since(bound) > comesBack {
				return s, false, err
			}
		}
		select {
		case <-news:
		case <-deadline:
			return s, false, nil
		case <-ctx.Done():
			return s, false, ctx.Err()
		}
	}
}

// watchPause is the time between two readings of the kubelet's pods.
const watchPause = 50 * time.Millisecond

// watch polls the kubelet's pods.
func (r *race) watch(ctx context.Context) error {
	for {
		pods, err := r.Kubelet.Pods(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.pods = make(map[string]peers.PodStatus, len(pods))
		for _, p := range pods {
			r.pods[p.Name] = p
			if waitsForImage(p) {
				r.failed[p.Name] = p.Message
			}
		}
		close(r.news)
		r.news = make(chan struct{})
		r.mu.Unlock()
		if benchmark.Pause(ctx, watchPause) != nil {
			return nil
		}
	}
}

// waitsForImage reports whether the kubelet found no image, or lost the image before the
// container ran.
func waitsForImage(p peers.PodStatus) bool {
	for _, reason := range []string{"ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "ImageInspectError", "CreateContainerError", "RunContainerError"} {
		if strings.HasPrefix(p.Message, reason+":") {
			return true
		}
	}
	return false
}
