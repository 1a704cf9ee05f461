package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/tools/node"
)

const (
	builder     = "builder" // another namespace of containerd
	names       = 30        // of images
	kept        = 2         // of them are kept by a rule
	ownBytes    = 5 * mib
	mostFilled  = 45 // percent of the disk
	snapshotter = "overlayfs"
)

// driver makes one step after the other, so that the true state of the node is known at each
// moment.
type driver struct {
	*fixture
	random *rand.Rand
	pool   []*pulled
	stays  []stay
	failed []failed
	ended  []string // pods of which something is left
	pods   []pod    // that only wait
	serial int      // of containers and pods
	filled int64    // bytes that belong to no image
	steps  map[string]int
	faults map[string]int
	cut    map[string]bool // images whose latest import failed, perhaps in the middle of a layer
	fault  *fault          // the present one
	next   int             // the step at which the next fault begins
	behind time.Duration   // how far the wall clock is behind the agent's
}

// pulled is an image and the digest that its name has now.
type pulled struct {
	node.Image
	id       string // "" until it was pulled
	revision int
	pushed   bool // this revision, to the registry
}

// stay is a container that stays: in a pod, or made without the CRI.
type stay struct {
	image     *pulled
	name      string
	inPod     bool
	pod       *node.Pod       // nil: in none, or in one of the kubelet
	container *node.Container // nil: in a pod
	other     bool            // in another namespace
	volume    *pulled         // another image that it has as a volume; nil: none
}

// failed is a container that could not be deleted, as on a full disk.
type failed struct {
	image string
	*node.Container
}

type pod struct {
	image *pulled
	name  string
}

func newDriver(b *fixture) *driver {
	d := &driver{fixture: b, random: rand.New(rand.NewPCG(b.seed, 1)), steps: make(map[string]int), faults: make(map[string]int), cut: make(map[string]bool)}
	for n := range names {
		d.pool = append(d.pool, &pulled{Image: b.imageOf(n, 0)})
	}
	d.next = b.gap
	return d
}

// imageOf is one version of an image. Each has a layer of its own; some share another.
func (b *fixture) imageOf(n, revision int) node.Image {
	name := fmt.Sprintf("%s/app%d:1", b.registry.Addr, n)
	if n < kept {
		name = fmt.Sprintf("%s/kept/app%d:1", b.registry.Addr, n)
	}
	i := node.Image{Name: name, Layers: []node.Layer{{Seed: fmt.Sprintf("own-%d-%d", n, revision), Bytes: ownBytes}}}
	if n%3 == 0 {
		i.Layers = append([]node.Layer{{Seed: fmt.Sprint("shared-", n%2), Bytes: ownBytes}}, i.Layers...)
	}
	return i
}

// run makes steps until this time, and checks after each.
func (d *driver) run(ctx context.Context, until time.Time) error {
	for n := 0; ctx.Err() == nil && time.Now().Before(until); n++ {
		d.deleteFailed(ctx)
		kind, err := d.step(ctx)
		d.steps[kind]++
		if err != nil && !d.expected(err) {
			return fmt.Errorf("step %d, %s: %w", n, kind, err)
		}
		if err := errors.Join(d.check(ctx, n), d.checkPods(ctx)); err != nil {
			return fmt.Errorf("after step %d, %s: %w", n, kind, err)
		}
		if err := d.turnFault(ctx, n); err != nil {
			return fmt.Errorf("fault after step %d: %w", n, err)
		}
		if n%50 == 49 {
			benchmark.Say("%d steps, %d faults, %d removals, %d containers", n+1, total(d.faults), d.oracle.Figures().Removals, len(d.stays))
		}
	}
	return d.endFault(context.WithoutCancel(ctx))
}

// expected reports whether an error is expected. Such errors come from an image that is removed
// while something is made of it, and from a full disk.
func (d *driver) expected(err error) bool {
	return errdefs.IsNotFound(err) || status.Code(err) == codes.NotFound || full(err) || errors.Is(err, errNotSoon)
}

// full reports whether an error comes from a full disk. overlayfs is mounted read-only if it finds
// no room for its own files.
func full(err error) bool {
	return strings.Contains(err.Error(), "no space left on device") || strings.Contains(err.Error(), "read-only file system")
}

func (d *driver) step(ctx context.Context) (string, error) {
	pick := d.random.IntN(100)
	for _, act := range []struct {
		name  string
		share int // of 100
		do    func(context.Context) error
	}{
		{"pull", 24, d.pull}, {"job", 22, d.job}, {"stay", 14, d.start}, {"end", 10, d.end}, {"pod", 6, d.bind}, {"pod deleted", 6, d.unbind},
		{"tag moves", 4, d.moveTag}, {"fill", 13, d.fill}, {"unfill", 1, d.unfill},
	} {
		if pick -= act.share; pick < 0 {
			return act.name, act.do(ctx)
		}
	}
	return "", nil
}

func (d *driver) pull(ctx context.Context) error {
	return d.pullOne(ctx, d.pool[d.random.IntN(len(d.pool))])
}

func (d *driver) pullOne(ctx context.Context, p *pulled) error {
	begun := time.Now()
	id, err := d.fetch(ctx, p)
	if d.cut[p.Name] = err != nil; err != nil {
		d.oracle.Tried(p.id, time.Now())
		return err
	}
	p.id = id
	d.oracle.Came(id, 2*100*ownBytes/float64(d.capacity), begun, time.Now()) // as a blob and unpacked
	if strings.Contains(p.Name, "/kept/") {
		d.oracle.Protect(id, "a rule keeps it", time.Now())
	}
	return nil
}

// there returns a random image that is on the node, or nil if there is none.
func (d *driver) there(ctx context.Context) (*pulled, error) {
	have, err := d.present(ctx)
	if err != nil {
		return nil, err
	}
	var list []*pulled
	for _, p := range d.pool {
		if slices.Contains(have, p.id) {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list[d.random.IntN(len(list))], nil
}

// job runs a container that ends at once. Every second one is in a pod.
func (d *driver) job(ctx context.Context) error {
	p, err := d.there(ctx)
	if p == nil {
		return err
	}
	if d.runsPods() && d.random.IntN(2) == 0 {
		return d.podJob(ctx, p)
	}
	return d.use(ctx, p)
}

func (d *driver) use(ctx context.Context, p *pulled) error {
	d.serial++
	begun := time.Now()
	c, err := d.node.Run(ctx, node.RunSpec{ID: fmt.Sprint("job-", d.serial), Image: p.Name, Args: []string{"/bin/busybox", "true"}})
	if err != nil {
		d.tried(ctx, p.id, d.node.Container(node.CRINamespace, fmt.Sprint("job-", d.serial)))
		return err
	}
	_, err = c.Wait(ctx)
	d.oracle.Used(p.id, begun, time.Now())
	if err != nil {
		return err
	}
	if err = c.Delete(ctx); err != nil {
		d.leave(failed{p.id, c})
	}
	return err
}

// tried records a container that could not be started. It may have run for a moment, whatever the
// error is. It uses its image until it can be deleted.
func (d *driver) tried(ctx context.Context, image string, c *node.Container) {
	if f := (failed{image, c}); !d.deleted(ctx, f) {
		d.leave(f)
	}
}

// leave remembers a container that could not be deleted.
func (d *driver) leave(f failed) {
	d.oracle.Protect(f.image, f.ID()+" is left", time.Now())
	d.failed = append(d.failed, f)
}

func (d *driver) deleteFailed(ctx context.Context) {
	d.failed = slices.DeleteFunc(d.failed, func(f failed) bool { return d.deleted(ctx, f) })
}

func (d *driver) deleted(ctx context.Context, f failed) bool {
	err := f.Delete(ctx)
	if err == nil {
		d.oracle.Release(f.image, f.ID()+" is left", time.Now())
	}
	d.oracle.Tried(f.image, time.Now())
	return err == nil
}

// lives are the commands of the containers that stay, at random speeds: %d is in milliseconds. They
// write little, because there are many of them.
var lives = []string{
	"busybox sleep 1000000",
	"while :; do echo a line of a log; busybox usleep %d000; done",
	"while :; do busybox dd if=/dev/zero of=/db bs=4k count=16 conv=notrunc,fsync 2>/dev/null; busybox usleep %d000; done",
	"while :; do busybox mkdir /o; for i in 1 2 3 4 5 6 7 8 9; do echo x >/o/$i; done; busybox usleep %d000; busybox rm -r /o; done",
	"while :; do busybox dd if=/dev/zero of=/w bs=64k count=32 2>/dev/null; busybox usleep %d000; busybox truncate -s 64k /w; busybox fallocate -l 1048576 /f; busybox rm -f /w /f; done",
}

func (d *driver) start(ctx context.Context) error {
	p, err := d.there(ctx)
	if p == nil || len(d.stays) >= d.containers {
		return err
	}
	d.serial++
	script := lives[d.random.IntN(len(lives))]
	if strings.Contains(script, "%d") {
		script = fmt.Sprintf(script, 50+d.random.IntN(2000))
	}
	s := stay{image: p, name: fmt.Sprint("stay-", d.serial), other: d.random.IntN(8) == 0}
	args := []string{"/bin/busybox", "sh", "-c", script}
	if s.other || !d.runsPods() || d.random.IntN(8) == 0 {
		err = d.startContainer(ctx, &s, args)
	} else {
		s.inPod = true
		s.pod, err = d.startPod(ctx, p, s.name, args)
	}
	if err != nil {
		return err
	}
	if d.random.IntN(5) == 0 {
		s.volume, err = d.mountVolume(ctx, s.name)
	}
	d.stays = append(d.stays, s)
	return err
}

// startContainer starts a container without the CRI.
func (d *driver) startContainer(ctx context.Context, s *stay, args []string) (err error) {
	spec := node.RunSpec{Namespace: node.CRINamespace, ID: s.name, Image: s.image.Name, Args: args}
	if s.other {
		spec.Namespace = builder
		if _, err := d.node.Import(ctx, builder, s.image.Image); err != nil {
			return err
		}
		d.oracle.Copied(s.image.id, time.Now())
	}
	begun := time.Now()
	if s.container, err = d.node.Run(ctx, spec); err != nil {
		d.tried(ctx, s.image.id, d.node.Container(spec.Namespace, spec.ID))
		return err
	}
	d.oracle.Used(s.image.id, begun, time.Now())
	d.oracle.Protect(s.image.id, s.name+" is made from it", time.Now())
	return nil
}

// end ends a container.
func (d *driver) end(ctx context.Context) error {
	if len(d.stays) == 0 {
		return nil
	}
	n := d.random.IntN(len(d.stays))
	if d.stays[n].inPod && !d.runsPods() {
		return nil
	}
	return d.endOne(ctx, n)
}

func (d *driver) endOne(ctx context.Context, n int) error {
	s := d.stays[n]
	end := d.endContainer
	if s.inPod {
		end = d.endPod
	}
	begun := time.Now()
	again, err := end(ctx, s)
	if again {
		return err
	}
	d.stays = slices.Delete(d.stays, n, n+1)
	err = errors.Join(err, d.unmountVolume(ctx, s))
	d.oracle.Used(s.image.id, begun, time.Now())
	return err
}

// endContainer ends and deletes a container that is in no pod. again: it runs.
func (d *driver) endContainer(ctx context.Context, s stay) (again bool, err error) {
	if err := s.container.Kill(ctx); err != nil {
		return true, err
	}
	d.oracle.Release(s.image.id, s.name+" is made from it", time.Now())
	if err := s.container.Delete(ctx); err != nil {
		d.leave(failed{s.image.id, s.container})
		return false, err
	}
	if !s.other {
		return false, nil
	}
	err = d.node.Client().ImageService().Delete(namespaces.WithNamespace(ctx, builder), s.image.Name)
	if errdefs.IsNotFound(err) {
		return false, nil // another container of this image has ended before
	}
	return false, err
}

// bind creates a pod that is bound to the node and needs an image.
func (d *driver) bind(ctx context.Context) error {
	if !d.runsPods() || d.kubelet != nil || len(d.pods) >= 12 {
		return nil
	}
	p, err := d.there(ctx)
	if p == nil {
		return err
	}
	d.serial++
	name := fmt.Sprint("pod-", d.serial)
	if _, err := d.createPod(ctx, p, name, nil); err != nil {
		return err
	}
	d.pods = append(d.pods, pod{p, name})
	return nil
}

func (d *driver) unbind(ctx context.Context) error {
	if len(d.pods) == 0 || !d.runsPods() {
		return nil
	}
	n := d.random.IntN(len(d.pods))
	p := d.pods[n]
	d.pods = slices.Delete(d.pods, n, n+1)
	return d.deletePod(ctx, p.image.id, p.name)
}

// moveTag gives the name of an unused image to another image. The runtime removes the image that
// had the name.
func (d *driver) moveTag(ctx context.Context) error {
	n := kept + d.random.IntN(names-kept)
	p := d.pool[n]
	if slices.ContainsFunc(d.stays, func(s stay) bool { return s.image == p || s.volume == p }) || slices.ContainsFunc(d.pods, func(o pod) bool { return o.image == p }) {
		return nil
	}
	d.oracle.Dropped(p.id)
	p.revision++
	p.Image, p.id, p.pushed = d.imageOf(n, p.revision), "", false
	return d.pullOne(ctx, p)
}

// fill writes data that belongs to no image, but so little that removing images can make room for
// it.
func (d *driver) fill(context.Context) error {
	u, err := d.node.Usage()
	more := int64(1+d.random.IntN(80)) * mib
	if err != nil || u.UsedPercent > 86 || 100*(d.filled+more) > mostFilled*int64(d.capacity) {
		return err
	}
	d.filled += more
	return d.node.Fill("fill", more)
}

func (d *driver) unfill(context.Context) error {
	d.filled = 0
	return d.node.Unfill("fill")
}
