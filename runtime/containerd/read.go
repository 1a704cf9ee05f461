package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"

	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/policy/image"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// snapshotter is a loaded snapshotter plugin.
type snapshotter struct {
	name string
	root string // "" if the plugin does not report it
}

const snapshotterPlugin = "io.containerd.snapshotter.v1"

func pluginDir(snapshotter string) string { return snapshotterPlugin + "." + snapshotter }

func lastElement(p string) string { return path.Base(path.Clean(p)) }

func (r *Runtime) listSnapshotters(ctx context.Context) ([]snapshotter, error) {
	resp, err := r.client.IntrospectionService().Plugins(ctx, "type=="+snapshotterPlugin)
	if err != nil {
		return nil, wrap("list snapshotters", err)
	}
	var list []snapshotter
	for _, p := range resp.Plugins {
		// A plugin that could not start has an error here (zfs without zfs).
		if p.InitErr == nil {
			list = append(list, snapshotter{name: p.ID, root: p.Exports["root"]})
		}
	}
	return list, nil
}

// findContentStore returns the directory of the blobs; "" if no plugin reports one (a proxy plugin,
// for example).
func (r *Runtime) findContentStore(ctx context.Context) (string, error) {
	resp, err := r.client.IntrospectionService().Plugins(ctx, "type==io.containerd.content.v1")
	if err != nil {
		return "", wrap("find the content store", err)
	}
	for _, p := range resp.Plugins {
		if root := p.Exports["root"]; p.InitErr == nil && root != "" {
			return root, nil
		}
	}
	return "", nil
}

func (r *Runtime) readNamespaces(ctx context.Context) ([]space, error) {
	names, err := r.client.NamespaceService().List(ctx)
	if err != nil {
		return nil, wrap("list namespaces", err)
	}
	spaces := make([]space, len(names))
	for i, name := range names {
		spaces[i].name = name
	}
	return spaces, nil
}

func (r *Runtime) readImages(ctx context.Context, s *space) error {
	list, err := r.client.ImageService().List(ctx)
	if err != nil {
		return wrap("list images of "+s.name, err)
	}
	s.images = r.imageRecords(ctx, list)
	return nil
}

func (r *Runtime) imageRecords(ctx context.Context, list []images.Image) []imageRecord {
	records := make([]imageRecord, 0, len(list))
	for _, i := range list {
		records = append(records, imageRecord{
			name: i.Name, target: i.Target.Digest.String(), labels: i.Labels, updated: updated(i),
			content: r.resolve(ctx, i.Target),
		})
	}
	return records
}

// updated returns when a record was last written: the later of its creation and update.
func updated(i images.Image) time.Time { return latest(i.CreatedAt, i.UpdatedAt) }

// isPinned reports whether a record's labels pin it: the CRI has set the pin, or a person.
func isPinned(labels map[string]string) bool { return labels["io.cri-containerd.pinned"] == "pinned" }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// imagesOf lists the records of some images in the context's namespace, without the thousands of
// others. It selects by the name that the CRI gives to each image, its ID, and by the targets known
// to lead to it. If that name leads to an unknown target, it lists again with that target. If an
// image has no known target, it lists all records.
func (r *Runtime) imagesOf(ctx context.Context, ids ...string) (list []images.Image, err error) {
	targets, all := r.cache.targetsOf(ids)
	for again := true; again; {
		var filters []string
		if all {
			for _, id := range ids {
				filters = append(filters, "name=="+strconv.Quote(id))
			}
			for t := range targets {
				filters = append(filters, "target.digest=="+strconv.Quote(t))
			}
		}
		if list, err = r.client.ImageService().List(ctx, filters...); err != nil {
			return nil, wrap("list the records of images", err)
		}
		again = false
		list = slices.DeleteFunc(list, func(i images.Image) bool {
			if !slices.Contains(ids, r.resolve(ctx, i.Target).id) {
				return true
			}
			again = again || all && !targets[i.Target.Digest.String()]
			targets[i.Target.Digest.String()] = true
			return false
		})
	}
	return list, nil
}

// readContainersOf reads the stream directly: the client would first collect every container's
// whole OCI spec.
func (r *Runtime) readContainersOf(ctx context.Context, s *space, filters ...string) error {
	operation := "list containers of " + s.name
	stream, err := containersapi.NewContainersClient(r.conn).ListStream(ctx,
		&containersapi.ListContainersRequest{Filters: filters})
	if err != nil {
		return wrap(operation, errgrpc.ToNative(err))
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return wrap(operation, errgrpc.ToNative(err))
		}
		c := m.GetContainer()
		s.containers = append(s.containers, containerRecord{
			id: c.GetID(), image: c.GetImage(), labels: c.GetLabels(), created: c.GetCreatedAt().AsTime(),
			snapshotter: c.GetSnapshotter(), snapKey: c.GetSnapshotKey(),
		})
	}
}

// brokenSnapshotters are the snapshotters that could not be read, with the reason. containerd asks
// a snapshotter's backend about each snapshot, and fails the whole list if the backend does not
// answer: the process of a proxy plugin can be down, or hang.
type brokenSnapshotters map[string]string

// note records a failed call to a snapshotter, and returns nil. If ctx is done it returns err
// instead: that shows nothing about the snapshotter.
func (b brokenSnapshotters) note(ctx context.Context, name string, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	b[name] = err.Error()
	return nil
}

func (b brokenSnapshotters) err() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(b)) {
		errs = append(errs, errors.New(b[name]))
	}
	return errors.Join(errs...)
}

// readSnapshots lists the snapshots of a namespace. It skips snapshotters in broken, and adds those
// that fail. If all are broken, containerd itself is at fault, and that is the error.
func (r *Runtime) readSnapshots(ctx context.Context, s *space, broken brokenSnapshotters, filters ...string) error {
	all := r.snapshotters()
	for _, sn := range all {
		if broken[sn.name] == "" {
			if err := broken.note(ctx, sn.name, r.readSnapshotsIn(ctx, s, sn.name, filters...)); err != nil {
				return err
			}
		}
	}
	if len(broken) == len(all) {
		return broken.err()
	}
	return nil
}

func (r *Runtime) readSnapshotsIn(ctx context.Context, s *space, snapshotter string, filters ...string) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotterTimeout)
	defer cancel()
	r.mu.Lock()
	_, elsewhere := r.elsewhere[snapshotter]
	r.mu.Unlock()
	err := r.client.SnapshotService(snapshotter).Walk(ctx, func(_ context.Context, i snapshots.Info) error {
		s.snapshots = append(s.snapshots, snapshotRecord{
			snapshotter: snapshotter, key: i.Name, parent: i.Parent, committed: i.Kind == snapshots.KindCommitted,
			created: i.Created, labels: i.Labels, elsewhere: elsewhere,
		})
		return nil
	}, filters...)
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	return wrap(fmt.Sprintf("list snapshots of %s in %s", s.name, snapshotter), err)
}

// noteElsewhere adds the layers on other filesystems to what the store account lacks
// ([image.Graph].Unread), and returns their snapshotters: see [inventory.Inventory].
func (r *Runtime) noteElsewhere(spaces []space) (unwatched map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.elsewhere)) {
		for i := range spaces {
			s, root := &spaces[i], r.elsewhere[name]
			if !slices.ContainsFunc(s.snapshots, func(snap snapshotRecord) bool { return snap.snapshotter == name }) {
				continue
			}
			why := "ebb does not watch the filesystem of " + root
			if root == "" {
				why = "containerd does not report the directory (for a proxy plugin: [proxy_plugins." + name + ".exports] root)"
			}
			s.unread = append(s.unread, fmt.Sprintf("layers of %s in snapshotter %s: %s", s.name, name, why))
			if unwatched == nil {
				unwatched = map[string]string{}
			}
			unwatched[name] = why
		}
	}
	return unwatched
}

// readUsage reads the size of each committed snapshot. It never asks for the size of an active one,
// for which containerd would walk the directory.
func (r *Runtime) readUsage(ctx context.Context, s *space, broken brokenSnapshotters) error {
	for i := range s.snapshots {
		snap := &s.snapshots[i]
		if !snap.committed || snap.elsewhere || broken[snap.snapshotter] != "" {
			continue
		}
		u, ok := r.cache.size(s.name, *snap)
		if !ok {
			got, err := r.usageOf(ctx, snap)
			if errdefs.IsNotFound(err) {
				continue // removed since the list: takes nothing
			}
			if err != nil {
				if err := broken.note(ctx, snap.snapshotter, wrap("read usage of snapshot "+snap.name(), err)); err != nil {
					return err
				}
				continue
			}
			u = inventory.SizeFact{Created: snap.created, Bytes: uint64(max(got.Size, 0)), Inodes: uint64(max(got.Inodes, 0))}
			r.cache.putSize(snap.id(s.name), u)
		}
		snap.bytes, snap.inodes = u.Bytes, u.Inodes
	}
	return nil
}

func (r *Runtime) usageOf(ctx context.Context, s *snapshotRecord) (snapshots.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, snapshotterTimeout)
	defer cancel()
	return r.client.SnapshotService(s.snapshotter).Usage(ctx, s.key)
}

func (r *Runtime) readContents(ctx context.Context, s *space) error {
	err := r.client.ContentStore().Walk(ctx, func(i content.Info) error {
		s.contents = append(s.contents, contentRecord{
			digest: i.Digest.String(), bytes: uint64(max(i.Size, 0)), created: image.TimestampOf(i.CreatedAt), labels: i.Labels,
		})
		return nil
	})
	return wrap("list content of "+s.name, err)
}

// mostExpired bounds for how many expired leases of a namespace the resources are read. Each costs
// a call, only to show what the lease once kept. containerd deletes expired leases with its next
// collection.
const mostExpired = 16

// leasesAtOnce is how many leases are read at the same time. BuildKit has thousands.
const leasesAtOnce = 8

func (r *Runtime) readLeases(ctx context.Context, s *space) error {
	manager := r.client.LeasesService()
	list, err := manager.List(ctx)
	if err != nil {
		return wrap("list leases of "+s.name, err)
	}
	now, expired := time.Now(), 0
	list = slices.DeleteFunc(list, func(l leases.Lease) bool {
		past := isExpired(l.Labels, now)
		if past {
			expired++
		}
		return (leaseRecord{labels: l.Labels}).ours() || past && expired > mostExpired // keeps nothing
	})
	records := make([]leaseRecord, len(list))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(leasesAtOnce)
	for i, l := range list {
		g.Go(func() error {
			resources, err := manager.ListResources(ctx, l)
			if errdefs.IsNotFound(err) {
				return nil // deleted since the list
			}
			if err != nil {
				return wrap("list resources of lease "+l.ID, err)
			}
			records[i] = leaseRecord{id: l.ID, labels: l.Labels}
			for _, res := range resources {
				if kind, name, ok := parseResource(res.Type, res.ID); ok {
					records[i].resources = append(records[i].resources, leaseResource{kind, name})
				}
			}
			return nil
		})
	}
	err = g.Wait()
	s.leases = append(s.leases, slices.DeleteFunc(records, func(l leaseRecord) bool { return l.id == "" })...)
	return err
}

// readIngests only serves the store account. One ingest whose times are missing after a crash fails
// the whole list; that must not fail the reading.
func (r *Runtime) readIngests(ctx context.Context, s *space) error {
	list, err := r.client.ContentStore().ListStatuses(ctx)
	if errdefs.IsUnavailable(err) || ctx.Err() != nil {
		return wrap("list ingests of "+s.name, err)
	}
	if err != nil {
		s.unread = append(s.unread, fmt.Sprintf("ingests of %s: %v", s.name, err))
		return nil
	}
	for _, i := range list {
		// A directory, and the files for the data, its name, two times and, if known, the total
		// size.
		inodes := uint64(5)
		if i.Total > 0 {
			inodes++
		}
		s.ingests = append(s.ingests, ingestRecord{
			ref: i.Ref, bytes: uint64(max(i.Offset, 0)), inodes: inodes, started: i.StartedAt, updated: i.UpdatedAt,
		})
	}
	return nil
}

func (r *Runtime) readSandboxes(ctx context.Context, s *space) error {
	r.mu.Lock()
	known := r.about.sandboxes
	r.mu.Unlock()
	if !known {
		return nil
	}
	list, err := r.client.SandboxStore().List(ctx)
	if errdefs.IsNotImplemented(err) {
		r.mu.Lock()
		r.about.sandboxes = false
		r.mu.Unlock()
		return nil
	}
	if err != nil {
		return wrap("list sandboxes of "+s.name, err)
	}
	for _, sb := range list {
		s.sandboxes = append(s.sandboxes, sandboxRecord{id: sb.ID, labels: sb.Labels})
	}
	return nil
}

// inCRI returns a context for calls about the CRI's namespace.
func inCRI(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, criNamespace)
}

// inNamespace returns a context for calls about this namespace.
func inNamespace(ctx context.Context, s *space) context.Context {
	return namespaces.WithNamespace(ctx, s.name)
}
