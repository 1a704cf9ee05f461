package state

import (
	"bytes"
	"encoding/json"

	bolt "go.etcd.io/bbolt"
)

// containerPrefix begins the keys of containers. They are in a bucket that the files of every
// version have: so this version reads older files, and older versions read its files.
const containerPrefix = "container "

// readContainers reads the containers. One that cannot be read counts as never seen: if it has
// ended, its end is taken in again.
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
