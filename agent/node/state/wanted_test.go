package state

import (
	"encoding/json"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// A saved answer that cannot be read is like none, and costs nothing else of the file.
func TestWantedThatCannotBeRead(t *testing.T) {
	for name, value := range map[string]string{
		"another version": `{"version":2,"wanted":{"a":["pod b/c"]}}`,
		"no JSON":         "\x00\xff",
		"another shape":   `{"version":1,"wanted":["a"]}`,
		"nothing":         `{"version":1}`,
		"gone":            "",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, _, _ := open(t, dir)
			if err := s.Save(sample(3)); err != nil {
				t.Fatal(err)
			}
			err := s.db.Update(func(tx *bolt.Tx) error {
				if value == "" {
					return tx.Bucket(bucketMeta).Delete(keyWanted)
				}
				return tx.Bucket(bucketMeta).Put(keyWanted, []byte(value))
			})
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			_, r, aside := open(t, dir)
			if r.Wanted != nil || !r.Meta.PodsAnswered.IsZero() || aside != "" || len(r.Images) != 3 {
				t.Errorf("read as %v of %v, %d images, moved aside %q", r.Wanted, r.Meta.PodsAnswered, len(r.Images), aside)
			}
		})
	}
}

// FuzzWanted: no value leads to an answer without its time, or to half of one.
func FuzzWanted(f *testing.F) {
	f.Add([]byte(`{"version":1,"wanted":{"a":["pod b/c"]}}`))
	f.Add([]byte(`{"version":2,"wanted":{}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := sample(0)
		r.Wanted = nil
		r.readWanted(b)
		if (r.Wanted == nil) != r.Meta.PodsAnswered.IsZero() {
			t.Fatalf("read as %v of %v", r.Wanted, r.Meta.PodsAnswered)
		}
		if r.Wanted != nil && !json.Valid(b) {
			t.Fatalf("read from no JSON: %v", r.Wanted)
		}
	})
}
