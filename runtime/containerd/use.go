package containerd

import (
	"cmp"
	"slices"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// usage finds the image that every container is made from, and the other snapshots on an image's
// top layer.
type usage struct {
	criImage map[string]string   // CRI container ID → image ID, in criNamespace
	ids      map[string]bool     // image IDs that the CRI knows
	byChain  map[string][]string // top layer's chain ID → image IDs
	usedBy   map[string][]string // image ID → users
	lives    map[string]bool     // image ID → one of the users has not ended
}

// imageSet maps the ID of each image to the chain ID of its top layer.
type imageSet map[string]string

func newUsage(images imageSet, criImage map[string]string) *usage {
	u := &usage{
		criImage: criImage,
		ids:      make(map[string]bool, len(images)),
		byChain:  make(map[string][]string, len(images)),
		usedBy:   map[string][]string{},
		lives:    map[string]bool{},
	}
	for id, chain := range images {
		u.ids[id] = true
		if chain != "" {
			u.byChain[chain] = append(u.byChain[chain], id)
		}
	}
	for _, ids := range u.byChain {
		slices.Sort(ids)
	}
	for container, id := range criImage { // also one whose record another client deleted: the kubelet still has it
		u.usedBy[id] = append(u.usedBy[id], "container "+criNamespace+"/"+container)
	}
	return u
}

// add records the users in one namespace, and returns its containers.
func (u *usage) add(s *space) []inventory.Container {
	parents, names := s.parents(), s.byName()
	owned := make(map[string]containerRecord, len(s.containers)) // by snapshot
	containers := make([]inventory.Container, 0, len(s.containers))
	for _, c := range s.containers {
		snapshot := c.snapshotter + "/" + c.snapKey
		owned[snapshot] = c
		id := u.imageOf(s.name, c, names, parents[snapshot])
		if u.ids[id] {
			u.usedBy[id] = append(u.usedBy[id], "container "+s.name+"/"+c.id)
			u.lives[id] = u.lives[id] || c.lives()
		}
		containers = append(containers, inventory.Container{
			Namespace: s.name, ID: c.id, ImageID: id, Ended: c.ended, Pod: podOf(s.name, c.labels),
		})
	}
	u.addSnapshots(s, owned)
	return containers
}

// podOf reads the pod from the labels that the CRI copies from the kubelet. In other namespaces the
// same labels mean nothing.
func podOf(namespace string, labels map[string]string) inventory.Pod {
	if namespace != criNamespace {
		return inventory.Pod{}
	}
	return inventory.Pod{
		Namespace: labels["io.kubernetes.pod.namespace"],
		Name:      labels["io.kubernetes.pod.name"],
		Container: labels["io.kubernetes.container.name"],
	}
}

// addSnapshots records every active or view snapshot on an image's top layer as a user: build
// steps, image volumes, and containers whose image was re-tagged since. If two images have the same
// layers, both are in use; freeing one of them would give back next to nothing.
func (u *usage) addSnapshots(s *space, owned map[string]containerRecord) {
	for _, snap := range s.snapshots {
		if snap.committed || snap.parent == "" || snap.ours() {
			continue
		}
		by, lives := "snapshot "+s.name+"/"+snap.key, true
		if c, ok := owned[snap.name()]; ok {
			by, lives = "container "+s.name+"/"+c.id, c.lives()
		}
		for _, id := range u.byChain[snap.parent] {
			u.usedBy[id] = append(u.usedBy[id], by)
			u.lives[id] = u.lives[id] || lives
		}
	}
}

// imageOf returns the ID of the image that a container was made from. The CRI remembers the ID.
// Elsewhere there is only a name, which may mean another image by now: then the parent of the
// container's snapshot decides.
func (u *usage) imageOf(namespace string, c containerRecord, names map[string]*imageRecord, parent string) string {
	if namespace == criNamespace {
		if id := u.criImage[c.id]; u.ids[id] {
			return id
		}
	}
	var byName imageContent
	if r := names[c.image]; r != nil && u.ids[r.content.id] {
		byName = r.content
	}
	if byName.id != "" && (parent == "" || byName.chain == parent) {
		return byName.id
	}
	if ids := u.byChain[parent]; len(ids) > 0 {
		return ids[0]
	}
	return byName.id
}

// users returns the users of an image, sorted, each once.
func (u *usage) users(id string) []string { return sortedSet(u.usedBy[id]) }

// layersOf returns where each chain ID is unpacked.
func layersOf(spaces []space) map[string][]inventory.Layer {
	layers := map[string][]inventory.Layer{}
	for i := range spaces {
		for _, snap := range spaces[i].snapshots {
			if snap.committed {
				layers[snap.key] = append(layers[snap.key], inventory.Layer{
					Namespace: spaces[i].name, Snapshotter: snap.snapshotter, ChainID: snap.key,
				})
			}
		}
	}
	for _, list := range layers {
		slices.SortFunc(list, func(a, b inventory.Layer) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Snapshotter, b.Snapshotter))
		})
	}
	return layers
}

// snapshotsOf returns the parent and the size of each layer.
func snapshotsOf(spaces []space) map[inventory.Layer]inventory.Snapshot {
	all := map[inventory.Layer]inventory.Snapshot{}
	for i := range spaces {
		for _, snap := range spaces[i].snapshots {
			if snap.committed {
				all[inventory.Layer{Namespace: spaces[i].name, Snapshotter: snap.snapshotter, ChainID: snap.key}] = inventory.Snapshot{
					Parent: snap.parent, Bytes: snap.bytes, Inodes: snap.inodes,
				}
			}
		}
	}
	return all
}
