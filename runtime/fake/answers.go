package fake

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// Version names the fake.
func (r *Runtime) Version() string { return "fake 1" }

// Learn ignores the facts: nothing in the fake takes long to read.
func (r *Runtime) Learn(inventory.Facts) uint64 { return 0 }

// Learnt always returns no facts.
func (r *Runtime) Learnt(known uint64) (*inventory.Facts, uint64) { return nil, known }

// Roots returns a directory that exists everywhere; the blobs' is that of SplitContent, if it was
// called.
func (r *Runtime) Roots(context.Context) (inventory.Roots, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	roots := inventory.Roots{Images: "/", Content: "/", Containers: "/"}
	if r.blobs != nil {
		roots.Content = r.blobs.path
	}
	return roots, nil
}

// begin waits for [Faults.Delay], then locks r.mu. If it returns an error, r.mu is not locked.
func (r *Runtime) begin(ctx context.Context) error {
	r.mu.Lock()
	delay := r.faults.Delay
	r.mu.Unlock()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	return nil
}

// Inventory answers as runtime/containerd does.
func (r *Runtime) Inventory(ctx context.Context) (*inventory.Inventory, error) {
	if err := r.begin(ctx); err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	defer r.mu.Unlock()
	if r.faults.Inventory != nil {
		return nil, fmt.Errorf("list images: %w", r.faults.Inventory)
	}
	g := r.graph()
	inv := &inventory.Inventory{Graph: g.graph, Blocked: r.blocked, Broken: r.faults.Broken, Unwatched: r.faults.Unwatched, Containers: r.listContainers(), Snapshots: r.layers()}
	for _, id := range r.ids() {
		img := r.image(id)
		img.Roots = g.roots[id]
		if img.Unread = r.faults.In[id]; img.Unread != "" {
			for _, l := range img.Layers {
				delete(inv.Snapshots, l)
			}
			img.Layers = nil // they cannot be listed
		}
		inv.Images = append(inv.Images, img)
	}
	return inv, nil
}

// Check reads some images again.
func (r *Runtime) Check(ctx context.Context, ids ...string) (map[string]inventory.Image, error) {
	r.mu.Lock()
	checking := r.faults.Checking
	r.mu.Unlock()
	if checking != nil {
		checking()
	}
	if err := r.begin(ctx); err != nil {
		return nil, fmt.Errorf("check %s: %w", ids, err)
	}
	defer r.mu.Unlock()
	if r.faults.Check != nil {
		return nil, fmt.Errorf("check %s: %w", ids, r.faults.Check)
	}
	there, checked := r.ids(), map[string]inventory.Image{}
	for _, id := range ids {
		if slices.Contains(there, id) {
			checked[id] = r.image(id)
		}
	}
	return checked, nil
}

// Remove removes an image and all its names.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	if err := r.begin(ctx); err != nil {
		return fmt.Errorf("remove image %s: %w", id, err)
	}
	defer r.mu.Unlock()
	if err := r.faults.Remove[id]; err != nil {
		return fmt.Errorf("remove image %s: %w", id, err)
	}
	if !slices.Contains(r.ids(), id) {
		return nil
	}
	before, _ := r.stored()
	for _, k := range sortedKeys(r.records) {
		if k.namespace == CRINamespace && r.records[k].id == id {
			delete(r.records, k)
			r.events.add(inventory.Event{Kind: inventory.EventImage, Namespace: k.namespace, Image: k.name})
		}
	}
	r.collected(id, before)
	return nil
}

// listContainers lists every container.
func (r *Runtime) listContainers() []inventory.Container {
	known := r.ids()
	var list []inventory.Container
	for _, k := range sortedKeys(r.containers) {
		t := r.containers[k]
		c := inventory.Container{Namespace: k.namespace, ID: k.name, Ended: r.ended(t)}
		if id := t.image.id; slices.Contains(known, id) {
			c.ImageID = id
		}
		list = append(list, c)
	}
	return list
}

// ResolveLayer invents a directory; its inode number follows from the layer and the namespace.
func (r *Runtime) ResolveLayer(ctx context.Context, l inventory.Layer) (inventory.LayerRoot, error) {
	if err := r.begin(ctx); err != nil {
		return inventory.LayerRoot{}, fmt.Errorf("resolve layer: %w", err)
	}
	defer r.mu.Unlock()
	if r.faults.Resolve != nil {
		return inventory.LayerRoot{}, fmt.Errorf("resolve layer: %w", r.faults.Resolve)
	}
	created, ok := r.roots[key{l.Namespace, l.ChainID}]
	if !ok || l.Snapshotter != snapshotter {
		return inventory.LayerRoot{}, fmt.Errorf("resolve layer %s: %w", l.ChainID, inventory.ErrNotFound)
	}
	top := place(l.Namespace, l.ChainID)
	root := inventory.LayerRoot{Path: top.Path, Dev: top.Dev, Ino: top.Ino, Created: created, Below: []inventory.Place{}}
	for parent := r.layers()[l].Parent; parent != ""; parent = r.layers()[inventory.Layer{
		Namespace: l.Namespace, Snapshotter: snapshotter, ChainID: parent}].Parent {
		root.Below = append(root.Below, place(l.Namespace, parent))
	}
	return root, nil
}

func place(namespace, chain string) inventory.Place {
	return PlaceAt("/fake/" + namespace + "/" + chain)
}

// PlaceAt returns the place of a path that [Runtime.ResolveLayer] returned, always the same for one
// path.
func PlaceAt(path string) inventory.Place {
	hash := fnv.New32a()
	fmt.Fprint(hash, path)
	return inventory.Place{Path: path, Dev: 8<<20 | 1, Ino: uint64(hash.Sum32())}
}

// layers returns the unpacked layers of images and leases, in every namespace.
func (r *Runtime) layers() map[inventory.Layer]inventory.Snapshot {
	all := map[inventory.Layer]inventory.Snapshot{}
	add := func(namespace string, s *stored) {
		parent := ""
		for n, chain := range s.chains {
			all[inventory.Layer{Namespace: namespace, Snapshotter: snapshotter, ChainID: chain}] = inventory.Snapshot{
				Parent: parent, Bytes: s.Layers[n].Bytes, Inodes: s.Layers[n].Inodes,
			}
			parent = chain
		}
	}
	for k, rec := range r.records {
		add(k.namespace, rec.stored)
	}
	for k, s := range r.leases {
		add(k.namespace, s)
	}
	return all
}

// ids returns the sorted IDs of the CRI's images.
func (r *Runtime) ids() []string {
	var ids []string
	for k, rec := range r.records {
		if k.namespace == CRINamespace && !rec.unseen.After(r.now()) {
			ids = append(ids, rec.id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (r *Runtime) image(id string) inventory.Image {
	img := inventory.Image{ID: id}
	var s *stored
	for _, k := range sortedKeys(r.records) {
		rec := r.records[k]
		if k.namespace != CRINamespace || rec.id != id {
			continue
		}
		s = rec.stored
		img.References = append(img.References, k.name)
		img.Pinned = img.Pinned || rec.Pinned
		img.Sandbox = img.Sandbox || k.name == r.sandbox
		if rec.updated.After(img.Updated) {
			img.Updated = rec.updated
		}
	}
	for _, l := range s.Layers {
		img.NominalBytes += l.BlobBytes
	}
	for _, k := range sortedKeys(r.roots) {
		if k.name == s.top() {
			img.Layers = append(img.Layers, inventory.Layer{Namespace: k.namespace, Snapshotter: snapshotter, ChainID: k.name})
		}
	}
	img.UsedBy, img.InUse = r.users(s)
	return img
}

func (r *Runtime) ended(t *task) time.Time {
	if r.faults.Undated {
		return time.Time{}
	}
	return t.ended
}

func (r *Runtime) users(s *stored) (users []string, live bool) {
	for k, c := range r.containers {
		if c.image.id == s.id || s.top() != "" && c.image.top() == s.top() {
			users = append(users, "container "+k.namespace+"/"+k.name)
			live = live || r.ended(c).IsZero()
		}
	}
	for k, chain := range r.snapshots {
		if chain != "" && chain == s.top() {
			users, live = append(users, "snapshot "+k.namespace+"/"+k.name), true
		}
	}
	slices.Sort(users)
	return users, live
}

// Close has nothing to release.
func (r *Runtime) Close() error { return nil }
