package containerd

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/runtime/cri"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// cache keeps facts that never change while the object that they describe exists.
type cache struct {
	mu       sync.Mutex
	facts    inventory.Facts
	changes  uint64                   // how often facts has changed
	carrying map[inventory.Layer]bool // layers with an active or view snapshot as child; nil: unknown
	ends     map[string]time.Time     // CRI container ID → when it ended, which is final
}

// Learn takes over the facts of an earlier agent, before any other call. Targets without a valid
// image ID are left out. It returns the number of changes so far, for [Runtime.Learnt].
func (r *Runtime) Learn(f inventory.Facts) (changes uint64) {
	for digest, t := range f.Targets {
		if cri.ValidID(t.ImageID) {
			r.cache.putContent(digest, imageContent{id: t.ImageID, chain: t.ChainID})
		}
	}
	for id, size := range f.Sizes {
		r.cache.putSize(id, size)
	}
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	return r.cache.changes
}

// Learnt returns the facts learnt so far, and how often they have changed. The facts are nil if
// that number equals known.
func (r *Runtime) Learnt(known uint64) (*inventory.Facts, uint64) {
	c := &r.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes == known {
		return nil, known
	}
	return &inventory.Facts{Targets: maps.Clone(c.facts.Targets), Sizes: maps.Clone(c.facts.Sizes)}, c.changes
}

func (c *cache) content(target string) (imageContent, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.facts.Targets[target]
	return imageContent{id: t.ImageID, chain: t.ChainID}, ok
}

func (c *cache) putContent(target string, v imageContent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.facts.Targets == nil {
		c.facts.Targets = map[string]inventory.Target{}
	}
	c.facts.Targets[target] = inventory.Target{ImageID: v.id, ChainID: v.chain}
	c.changes++
}

// targetsOf returns the known target digests that lead to images; all is false if one of the images
// has none yet.
func (c *cache) targetsOf(ids []string) (targets map[string]bool, all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	targets, led := map[string]bool{}, map[string]bool{}
	for digest, t := range c.facts.Targets {
		if slices.Contains(ids, t.ImageID) {
			targets[digest], led[t.ImageID] = true, true
		}
	}
	return targets, len(led) == len(ids)
}

// chainsOf returns the chain IDs of the images' top layers, as far as they are known.
func (c *cache) chainsOf(ids []string) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	chains := map[string]bool{}
	for _, t := range c.facts.Targets {
		if t.ChainID != "" && slices.Contains(ids, t.ImageID) {
			chains[t.ChainID] = true
		}
	}
	return chains
}

// size returns the cached size of a snapshot; false if there is none, or only that of an earlier
// snapshot with the same key.
func (c *cache) size(namespace string, s snapshotRecord) (inventory.SizeFact, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.facts.Sizes[s.id(namespace)]
	return f, ok && f.Created.Equal(s.created)
}

func (c *cache) putSize(id inventory.SnapshotID, f inventory.SizeFact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.facts.Sizes == nil {
		c.facts.Sizes = map[inventory.SnapshotID]inventory.SizeFact{}
	}
	c.facts.Sizes[id] = f
	c.changes++
}

// mayCarry reports whether an active or view snapshot may have the layer as parent. It is false if
// the last full reading saw none.
func (c *cache) mayCarry(l inventory.Layer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.carrying == nil || c.carrying[l]
}

// sweep forgets facts about objects that a full reading no longer saw, and notes which layers have
// an active or view snapshot as child. Of broken snapshotters it saw nothing.
func (c *cache) sweep(spaces []space, broken brokenSnapshotters) {
	targets := map[string]bool{}
	live := map[inventory.SnapshotID]bool{}
	carrying := map[inventory.Layer]bool{}
	for i := range spaces {
		for _, img := range spaces[i].images {
			targets[img.target] = true
		}
		for _, s := range spaces[i].snapshots {
			if s.committed {
				live[s.id(spaces[i].name)] = true
			} else {
				carrying[inventory.Layer{Namespace: spaces[i].name, Snapshotter: s.snapshotter, ChainID: s.parent}] = true
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.carrying = carrying; len(broken) > 0 {
		c.carrying = nil
	}
	was := len(c.facts.Targets) + len(c.facts.Sizes)
	maps.DeleteFunc(c.facts.Targets, func(digest string, _ inventory.Target) bool { return !targets[digest] })
	maps.DeleteFunc(c.facts.Sizes, func(id inventory.SnapshotID, _ inventory.SizeFact) bool {
		return !live[id] && broken[id.Snapshotter] == ""
	})
	if len(c.facts.Targets)+len(c.facts.Sizes) != was {
		c.changes++
	}
}
