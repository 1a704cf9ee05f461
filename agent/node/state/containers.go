package state

import (
	"bytes"
	"encoding/json"

	bolt "go.etcd.io/bbolt"
)

// containerPrefix is of the containers' keys in the bucket that every version has: files
// of older ones stay readable, and theirs to older ones.
const containerPrefix = "container "

// readContainers takes the containers over. One that cannot be read is like one that was
// never seen: its end, if it has ended, is taken in again.
func (r *Records) readContainers(meta *bolt.Bucket) {
	prefix := []byte(containerPrefix)
	cursor := meta.Cursor()
	for k, v := cursor.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = cursor.Next() {
		var c Container
		if err := json.Unmarshal(v, &c); err == nil {
			r.Containers[string(k[len(prefix):])] = c
		}
	}
}
