package state

import (
	"bytes"
	"encoding/json"
	"errors"

	bolt "go.etcd.io/bbolt"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

var (
	bucketTargets = []byte("targets")
	bucketSizes   = []byte("sizes")
)

// saveFacts makes the facts in the file equal to f; nil changes nothing.
func saveFacts(tx *bolt.Tx, f *inventory.Facts) error {
	if f == nil {
		return nil
	}
	targets, sizes := make(map[string][]byte, len(f.Targets)), make(map[string][]byte, len(f.Sizes))
	for digest, t := range f.Targets {
		putJSON(targets, []byte(digest), t)
	}
	for id, size := range f.Sizes {
		// A key is JSON, too: its parts come from the runtime and may hold any separator.
		if key, err := json.Marshal(id); err == nil {
			putJSON(sizes, key, size)
		}
	}
	return errors.Join(replace(tx, bucketTargets, targets), replace(tx, bucketSizes, sizes))
}

// putJSON leaves out what the file cannot hold; the runtime learns that again.
func putJSON(into map[string][]byte, key []byte, v any) {
	if b, err := json.Marshal(v); err == nil && len(key) > 0 && len(key) < bolt.MaxKeySize {
		into[string(key)] = b
	}
}

// replace makes a bucket equal to want, and writes only the differences. It takes unchanged keys
// out of want. Files of earlier versions lack the bucket.
func replace(tx *bolt.Tx, bucket []byte, want map[string][]byte) error {
	b, err := tx.CreateBucketIfNotExists(bucket)
	if err != nil {
		return err
	}
	var gone [][]byte
	each(b, func(k, v []byte) {
		switch w, ok := want[string(k)]; {
		case !ok:
			gone = append(gone, bytes.Clone(k))
		case bytes.Equal(w, v):
			delete(want, string(k))
		}
	})
	for _, k := range gone {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	for k, v := range want {
		if err := b.Put([]byte(k), v); err != nil {
			return err
		}
	}
	return nil
}

// readFacts reads the facts that can be read; the runtime learns the rest again. It returns nil if
// there are none.
func readFacts(tx *bolt.Tx, same shared) *inventory.Facts {
	f := &inventory.Facts{Targets: map[string]inventory.Target{}, Sizes: map[inventory.SnapshotID]inventory.SizeFact{}}
	each(tx.Bucket(bucketTargets), func(k, v []byte) {
		var t inventory.Target
		if json.Unmarshal(v, &t) == nil {
			f.Targets[string(k)] = inventory.Target{ImageID: same.of(t.ImageID), ChainID: same.of(t.ChainID)}
		}
	})
	each(tx.Bucket(bucketSizes), func(k, v []byte) {
		var id inventory.SnapshotID
		var size inventory.SizeFact
		if json.Unmarshal(k, &id) == nil && json.Unmarshal(v, &size) == nil {
			f.Sizes[inventory.SnapshotID{
				Namespace: same.of(id.Namespace), Snapshotter: same.of(id.Snapshotter), Key: same.of(id.Key),
			}] = size
		}
	})
	if len(f.Targets)+len(f.Sizes) == 0 {
		return nil
	}
	return f
}

func each(b *bolt.Bucket, take func(k, v []byte)) {
	if b == nil {
		return
	}
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		take(k, v)
	}
}

// shared makes equal strings share their bytes. The file repeats digests and paths many times: for
// thousands of images, the copies would take megabytes.
type shared map[string]string

func (s shared) of(text string) string {
	if first, ok := s[text]; ok {
		return first
	}
	s[text] = text
	return text
}
