package state

import (
	"encoding/json"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// change sets a key of the file to a value; if that is nil, it deletes the key.
type change struct {
	bucket, key, value []byte
}

// changed returns the changes that lead from one state of the file to another. Thousands of images
// and layers are compared field by field: to encode each as JSON for every save would cost more
// than the rest of the save.
func changed(last, next Records) (changes []change) {
	if !sameJSON(last.Meta, next.Meta) {
		changes = appendChange(changes, bucketMeta, keyMeta, next.Meta)
	}
	switch answered := next.Meta.PodsAnswered; {
	case answered.IsZero() && !last.Meta.PodsAnswered.IsZero():
		changes = appendChange(changes, bucketMeta, keyWanted, nil)
	case !answered.IsZero() && (last.Meta.PodsAnswered.IsZero() || !sameJSON(last.Wanted, next.Wanted)):
		changes = appendChange(changes, bucketMeta, keyWanted, wanted{wantedVersion, next.Wanted})
	}
	byID := func(id string) []byte { return []byte(id) }
	changes = append(changes, differ(bucketImages, last.Images, next.Images, byID, Image.same)...)
	changes = append(changes, differ(bucketRemoved, last.Removed, next.Removed, byID, Removed.same)...)
	changes = append(changes, differ(bucketObserved, last.Observed, next.Observed, byID, Observed.same)...)
	ofContainer := func(name string) []byte { return []byte(containerPrefix + name) }
	changes = append(changes, differ(bucketMeta, last.Containers, next.Containers, ofContainer, Container.same)...)
	return append(changes, differ(bucketLayers, last.Layers, next.Layers, layerKey, Layer.same)...)
}

// differ returns the changes that lead from one map to another.
func differ[K comparable, V any](bucket []byte, last, next map[K]V, key func(K) []byte, same func(V, V) bool) (changes []change) {
	for k, v := range next {
		if was, ok := last[k]; !ok || !same(v, was) {
			changes = appendChange(changes, bucket, key(k), v)
		}
	}
	for k := range last {
		if _, ok := next[k]; !ok {
			changes = appendChange(changes, bucket, key(k), nil)
		}
	}
	return changes
}

// appendChange appends a change. It leaves out what the file cannot hold: an empty key, a key that
// is too long, and a time outside year 0..9999, from a broken clock.
func appendChange(changes []change, bucket, key []byte, v any) []change {
	if len(key) == 0 || len(key) >= bolt.MaxKeySize {
		return changes
	}
	c := change{bucket: bucket, key: key}
	if v != nil {
		var err error
		if c.value, err = json.Marshal(v); err != nil {
			return changes
		}
	}
	return append(changes, c)
}

// layerKey is JSON: its parts come from the runtime and may contain any separator.
func layerKey(l inventory.Layer) []byte {
	key, _ := json.Marshal(l) // strings can always be encoded
	return key
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && slices.Equal(x, y)
}

func (i Image) same(as Image) bool {
	return i.Observed.Equal(as.Observed) && i.Arrived.Equal(as.Arrived) && i.LastUsed.Equal(as.LastUsed) && i.Updated.Equal(as.Updated) &&
		i.Again == as.Again && i.UsedBy == as.UsedBy
}

func (c Container) same(as Container) bool { return c.Image == as.Image && c.Ended.Equal(as.Ended) }

func (r Removed) same(as Removed) bool {
	return r.At.Equal(as.At) && r.Reason == as.Reason && r.Bytes == as.Bytes && slices.Equal(r.References, as.References) &&
		r.LastUsed.Equal(as.LastUsed) && r.Again == as.Again
}

func (o Observed) same(as Observed) bool {
	return o.Would.Equal(as.Would) && o.Back.Equal(as.Back) && o.Others.Equal(as.Others)
}

func (l Layer) same(as Layer) bool {
	return l.Path == as.Path && l.Dev == as.Dev && l.Ino == as.Ino && l.Created.Equal(as.Created) &&
		l.Generation == as.Generation && l.UUID == as.UUID && slices.Equal(l.Below, as.Below) && l.Birth == as.Birth
}
