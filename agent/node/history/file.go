package history

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// bucket is where the file has an entry.
type bucket int

const (
	nowhere bucket = iota
	begun          // no outcome yet
	removals
	refusals
	bucketCount
)

var buckets = [bucketCount][]byte{
	begun: []byte("history-begun"), removals: []byte("history-removals"), refusals: []byte("history-refusals"),
}

// limits bound how much is kept.
type limits struct {
	entries int // of removals, and as many of refusals
	age     time.Duration
}

var standard = limits{entries: 10_000, age: 30 * 24 * time.Hour}

const (
	begunMost  = 1000 // without an outcome: far more than are ever under way
	prunedEach = 4    // entries that one append deletes at most
)

// file is the buckets as they are after a transaction. It is a value, so a failed transaction
// leaves it unchanged.
type file struct {
	db      *bolt.DB // nil: no file is open
	limits  limits
	count   [bucketCount]int
	damaged [bucketCount]bool // the next write creates it again
	last    uint64            // the highest key ever used
}

// record is an entry on its way into the file.
type record struct {
	key     uint64 // 0: the file does not have it
	was, is bucket // is nowhere: it is deleted
	value   []byte
}

// left is an entry that the file has without an outcome.
type left struct {
	key   uint64
	entry page.HistoryEntry
}

// openFile counts the entries, and returns those without an outcome.
func openFile(db *bolt.DB, l limits) (f file, without []left, err error) {
	f = file{db: db, limits: l}
	err = guarded(func() error {
		return db.View(func(tx *bolt.Tx) error {
			for s := begun; s < bucketCount; s++ {
				b := tx.Bucket(buckets[s])
				if b == nil {
					continue
				}
				f.last = max(f.last, b.Sequence())
				c := b.Cursor()
				for k, v := c.First(); k != nil; k, v = c.Next() {
					if f.damaged[s] = len(k) != 8 || v == nil; f.damaged[s] {
						break
					}
					f.count[s]++
					f.last = max(f.last, keyOf(k))
					if s != begun {
						continue
					}
					if e, err := decode(v); err == nil {
						without = append(without, left{keyOf(k), e})
					}
				}
			}
			return nil
		})
	})
	return f, without, err
}

// write writes records in one transaction, and deletes entries that are too old or too many. It
// returns the file as it is then, and the keys of the records.
func (f file) write(records []record, now, wall time.Time) (next file, keys []uint64, err error) {
	err = guarded(func() error {
		return f.db.Update(func(tx *bolt.Tx) (err error) {
			t := transaction{file: f}
			if err := t.open(tx); err != nil {
				return err
			}
			keys = make([]uint64, len(records))
			for n, r := range records {
				if keys[n], err = t.put(r); err != nil {
					return err
				}
			}
			err = t.prune(now, wall)
			next = t.file
			return err
		})
	})
	if err != nil {
		return f, nil, fmt.Errorf("write history: %w", err)
	}
	return next, keys, nil
}

// transaction is a file while it changes.
type transaction struct {
	file
	bucket [bucketCount]*bolt.Bucket
	added  [bucketCount]int
}

func (t *transaction) open(tx *bolt.Tx) (err error) {
	for s := begun; s < bucketCount; s++ {
		if t.damaged[s] {
			if err := tx.DeleteBucket(buckets[s]); err != nil {
				return err
			}
			t.damaged[s], t.count[s] = false, 0
		}
		if t.bucket[s], err = tx.CreateBucketIfNotExists(buckets[s]); err != nil {
			return err
		}
		t.bucket[s].FillPercent = 0.9 // keys come in order
	}
	return nil
}

func (t *transaction) put(r record) (key uint64, err error) {
	if key = r.key; r.key != 0 && r.was != r.is {
		if err := t.delete(r.was, keyBytes(key)); err != nil {
			return 0, err
		}
	}
	if r.is == nowhere {
		return key, nil
	}
	if key == 0 {
		if key, err = t.nextKey(); err != nil {
			return 0, err
		}
	}
	k := keyBytes(key)
	if t.bucket[r.is].Get(k) == nil {
		t.count[r.is]++
		t.added[r.is]++
	}
	return key, t.bucket[r.is].Put(k, r.value)
}

// nextKey returns a key above any before, even if the bucket with the sequence was created again.
func (t *transaction) nextKey() (key uint64, err error) {
	b := t.bucket[begun]
	if b.Sequence() < t.last {
		if err := b.SetSequence(t.last); err != nil {
			return 0, err
		}
	}
	t.last, err = b.NextSequence()
	return t.last, err
}

func (t *transaction) delete(s bucket, key []byte) error {
	if s == nowhere || t.bucket[s].Get(key) == nil {
		return nil
	}
	t.count[s]--
	return t.bucket[s].Delete(key)
}

// prune deletes the oldest entries that are too many or too old, up to prunedEach for each added
// entry.
func (t *transaction) prune(now, wall time.Time) error {
	for s := begun; s < bucketCount; s++ {
		most := t.limits.entries
		if s == begun {
			most = begunMost
		}
		var gone [][]byte
		c := t.bucket[s].Cursor()
		for k, v := c.First(); k != nil && len(gone) < prunedEach*t.added[s]; k, v = c.Next() {
			if t.count[s]-len(gone) <= most && (s == begun || age(v, now, wall) < t.limits.age) {
				break
			}
			gone = append(gone, bytes.Clone(k))
		}
		for _, k := range gone {
			if err := t.delete(s, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// guarded calls f, which reads the file, and turns panics into errors. A damaged page can make
// bbolt panic, and a page that is gone can fault.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged: %v", p)
		}
	}()
	return f()
}

func keyBytes(key uint64) []byte { return binary.BigEndian.AppendUint64(nil, key) }

func keyOf(k []byte) uint64 { return binary.BigEndian.Uint64(k) }
