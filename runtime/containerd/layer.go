package containerd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"

	"github.com/ebb-agent/ebb/runtime/fs"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

const (
	// ownLabel and viewPrefix mark the objects that ebb creates in containerd.
	ownLabel   = "ebb-agent.github.io/layer-view"
	viewPrefix = "ebb-view-"

	// upperdirLabel is the label in which the overlayfs snapshotter stores a snapshot's directory,
	// if its option upperdir_label is set.
	upperdirLabel = "containerd.io/snapshot/overlay.upperdir"

	// leaseTime is the longest time that views of a crashed run remain if no later run removes
	// them. A view itself lives for milliseconds.
	leaseTime  = 10 * time.Minute
	leaseSpare = time.Minute
)

// viewLease is the lease that holds ebb's views in one namespace.
type viewLease struct {
	id      string
	expires time.Time
}

// copying are the snapshotters whose views are not overlays of the layers' directories: making a
// view may copy the whole image, and its mounts do not show the layers.
var copying = []string{"native", "btrfs", "zfs", "devmapper", "blockfile"}

// ResolveLayer finds the directories, or filesystem images, of a layer and of those below it. If
// the snapshots' labels show them, or a container's snapshot has the layer as parent, nothing is
// written, so that this works on a full disk, too. Otherwise ResolveLayer makes a view and removes
// it at once.
func (r *Runtime) ResolveLayer(ctx context.Context, l inventory.Layer) (inventory.LayerRoot, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	root, err := r.resolveLayer(ctx, l)
	if err != nil {
		return inventory.LayerRoot{}, wrap(fmt.Sprintf("resolve layer %s/%s/%s", l.Namespace, l.Snapshotter, l.ChainID), err)
	}
	return root, nil
}

func (r *Runtime) resolveLayer(ctx context.Context, l inventory.Layer) (inventory.LayerRoot, error) {
	ctx = inNamespace(ctx, &space{name: l.Namespace})
	sn := r.client.SnapshotService(l.Snapshotter)
	info, err := sn.Stat(ctx, l.ChainID)
	if err != nil {
		return inventory.LayerRoot{}, err
	}
	found, err := layersFromLabels(ctx, sn, l.Snapshotter, info)
	// To find the children of a layer, containerd scans all its snapshots.
	likely := r.cache.mayCarry(l)
	if likely && err == nil && len(found.paths) == 0 {
		found, err = r.layersFromChild(ctx, sn, l.ChainID)
	}
	if err == nil && len(found.paths) == 0 {
		found, err = r.layersFromView(ctx, sn, l)
	}
	if err != nil && !likely { // for example on a full disk; a child may be new
		if child, childErr := r.layersFromChild(ctx, sn, l.ChainID); childErr == nil && len(child.paths) > 0 {
			found, err = child, nil
		}
	}
	if err != nil {
		return inventory.LayerRoot{}, err
	}
	places := make([]inventory.Place, len(found.paths))
	for i, path := range found.paths {
		if places[i], err = found.locate(path); err != nil {
			return inventory.LayerRoot{}, err
		}
	}
	top := places[0]
	return inventory.LayerRoot{
		Path: top.Path, Dev: top.Dev, Ino: top.Ino, Created: info.Created, Generation: top.Generation, UUID: top.UUID, Below: places[1:],
	}, nil
}

// layerPaths are directories or filesystem images, topmost first.
type layerPaths struct {
	paths  []string
	locate func(path string) (inventory.Place, error)
}

// layerPathsOf finds the layers in a snapshot's mounts; see layerDirs for bind.
func layerPathsOf(mounts []mount.Mount, bind bool) (layerPaths, error) {
	if files, err := erofsLayers(mounts); err == nil {
		return layerPaths{files, erofsPlace}, nil
	}
	dirs, err := layerDirs(mounts, bind)
	return layerPaths{dirs, directoryPlace}, err
}

func directoryPlace(dir string) (inventory.Place, error) {
	place, err := fs.Locate(dir)
	return inventory.Place{Path: dir, Dev: place.Dev, Ino: place.Ino, Generation: fs.Generation(dir)}, err
}

// layersFromLabels finds the directories of a layer and of those below it in the labels of
// overlayfs snapshots; none if one of the snapshots lacks the label. Each layer costs a read, where
// a view costs five commits of containerd's databases.
func layersFromLabels(ctx context.Context, sn snapshots.Snapshotter, snapshotter string, top snapshots.Info) (layerPaths, error) {
	var dirs []string
	for info := top; snapshotter == "overlayfs"; {
		dir := info.Labels[upperdirLabel]
		if !filepath.IsAbs(dir) {
			break
		}
		dirs = append(dirs, dir)
		if info.Parent == "" {
			return layerPaths{dirs, directoryPlace}, nil
		}
		var err error
		if info, err = sn.Stat(ctx, info.Parent); err != nil {
			return layerPaths{}, err
		}
	}
	return layerPaths{}, nil
}

// layersFromChild finds the layers in the mounts of an active or view snapshot whose parent is the
// layer; none if no such snapshot shows them.
func (r *Runtime) layersFromChild(ctx context.Context, sn snapshots.Snapshotter, chain string) (layerPaths, error) {
	var children []string
	err := sn.Walk(ctx, func(_ context.Context, i snapshots.Info) error {
		// The filter has selected them already, but lets pass what it does not know.
		if i.Kind != snapshots.KindCommitted && i.Parent == chain {
			children = append(children, i.Name)
		}
		return nil
	}, "parent=="+strconv.Quote(chain))
	if err != nil {
		return layerPaths{}, err
	}
	for _, key := range children {
		mounts, err := sn.Mounts(ctx, key)
		if errdefs.IsNotFound(err) {
			continue // removed since the list
		}
		if err != nil {
			return layerPaths{}, err
		}
		if found, err := layerPathsOf(mounts, false); err == nil {
			return found, nil
		}
	}
	return layerPaths{}, nil
}

func (r *Runtime) layersFromView(ctx context.Context, sn snapshots.Snapshotter, l inventory.Layer) (layerPaths, error) {
	if slices.Contains(copying, l.Snapshotter) {
		return layerPaths{}, fmt.Errorf("snapshotter %s: %w", l.Snapshotter, inventory.ErrUnsupported)
	}
	if err := ctx.Err(); err != nil {
		return layerPaths{}, err
	}
	ctx, cancel := outlasting(ctx)
	defer cancel()
	lease, err := r.leaseFor(ctx, l.Namespace)
	if err != nil {
		return layerPaths{}, err
	}
	ctx = leases.WithLease(ctx, lease)
	key := r.nextView()
	mounts, err := sn.View(ctx, key, l.ChainID, snapshots.WithLabels(map[string]string{ownLabel: r.nonce}))
	if err != nil {
		r.dropLease(ctx, l.Namespace, lease)
		return layerPaths{}, err
	}
	found, err := layerPathsOf(mounts, true)
	return found, errors.Join(err, removeView(ctx, sn, key))
}

// outlasting returns a context that lasts closeTimeout longer than ctx. It is for a call that the
// runtime completes even if the caller is gone by then, and that has to be undone.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(closeTimeout):
			cancel()
		case <-longer.Done():
		}
	})
	return longer, func() { stop(); cancel() }
}

// removeView removes a view even if ctx is done: the view must not keep an image's layers.
func removeView(ctx context.Context, sn snapshots.Snapshotter, key string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := sn.Remove(ctx, key); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove view %s: %w", key, err)
	}
	return nil
}

func (r *Runtime) nextView() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.viewSeq++
	return fmt.Sprintf("%s%s-%d", viewPrefix, r.nonce, r.viewSeq)
}

// leaseFor returns the ID of the lease for views in this namespace, of a new lease if the old one
// is about to expire. Many views share it, because each lease costs a write.
func (r *Runtime) leaseFor(ctx context.Context, namespace string) (string, error) {
	r.mu.Lock()
	have, ok := r.leases[namespace]
	r.mu.Unlock()
	if ok && time.Until(have.expires) > leaseSpare {
		return have.id, nil
	}
	id := r.nextView()
	_, err := r.client.LeasesService().Create(ctx, leases.WithID(id),
		leases.WithLabel(ownLabel, r.nonce), leases.WithExpiration(leaseTime))
	if err != nil {
		r.dropLease(ctx, namespace, id) // it may exist despite the error
		return "", err
	}
	r.mu.Lock()
	r.leases[namespace] = viewLease{id: id, expires: time.Now().Add(leaseTime)}
	r.mu.Unlock()
	return id, nil
}

// dropLease makes the next view start with a new lease, in case the old one caused the failure
// (another process may have deleted it). It also deletes the old lease, so that leases do not pile
// up.
func (r *Runtime) dropLease(ctx context.Context, namespace, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	r.mu.Lock()
	if r.leases[namespace].id == id {
		delete(r.leases, namespace)
	}
	r.mu.Unlock()
	r.deleteLease(ctx, namespace, id)
}

// deleteLease deletes a lease that holds nothing. If that fails, the lease stays until it expires.
func (r *Runtime) deleteLease(ctx context.Context, namespace, id string) {
	if err := r.client.LeasesService().Delete(ctx, leases.Lease{ID: id}); err != nil && !errdefs.IsNotFound(err) {
		r.log.DebugContext(ctx, "lease stays until it expires", "lease", id, "namespace", namespace, "reason", err)
	}
}

func (r *Runtime) releaseLeases(ctx context.Context) {
	r.mu.Lock()
	held := r.leases
	r.leases = map[string]viewLease{}
	r.mu.Unlock()
	for namespace, l := range held {
		r.deleteLease(inNamespace(ctx, &space{name: namespace}), namespace, l.id)
	}
}

// removeLeftovers removes the views and leases of runs that crashed. Another ebb that is using a
// view at that moment loses nothing: it has the answer by then, or tries again.
func (r *Runtime) removeLeftovers(ctx context.Context) error {
	spaces, err := r.readNamespaces(ctx)
	if err != nil {
		return err
	}
	broken := make(brokenSnapshotters)
	for i := range spaces {
		in := inNamespace(ctx, &spaces[i])
		if err := r.readSnapshots(in, &spaces[i], broken, "labels."+strconv.Quote(ownLabel)); err != nil {
			return err
		}
		for _, snap := range spaces[i].snapshots {
			if !snap.ours() || snap.committed {
				continue
			}
			if err := removeView(in, r.client.SnapshotService(snap.snapshotter), snap.key); err != nil {
				// For example on a full disk. Reclaim must start all the same, and containerd
				// collects the view once its lease expires.
				r.log.WarnContext(ctx, "cannot remove a view left by an earlier run", "namespace", spaces[i].name,
					"snapshot", snap.key, "reason", err)
				continue
			}
			r.log.InfoContext(ctx, "view removed", "namespace", spaces[i].name, "snapshot", snap.key, "reason", "left by an earlier run")
		}
		list, err := r.client.LeasesService().List(in)
		if err != nil {
			return wrap("list leases", err)
		}
		for _, l := range list {
			if by := l.Labels[ownLabel]; by != "" && by != r.nonce && !isWithdrawal(l) {
				r.deleteLease(in, spaces[i].name, l.ID)
			}
		}
	}
	if err := broken.err(); err != nil {
		r.log.WarnContext(ctx, "views left by an earlier run may stay", "reason", err)
	}
	return nil
}
