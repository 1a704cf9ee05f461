package history

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// Bounds of a page.
const (
	pageUsual = 100
	PageMost  = 1000 // entries
)

// ErrBefore is returned (wrapped) for a key that no page has named.
var ErrBefore = errors.New("not the key of an entry")

// errNoFile is the error of reads and writes before the state file could be opened.
var errNoFile = errors.New("the state file is not open")

// Read returns the newest entries, at most limit (100 if that is 0, and never more than 1000).
// Before is the Next of an earlier page, to continue after it; "" for the newest. Entries that
// could not be written yet are missing.
func (h *History) Read(limit int, before string) (p page.History, err error) {
	p.Entries = []page.HistoryEntry{}
	if limit <= 0 {
		limit = pageUsual
	}
	var from uint64
	if before != "" {
		if from, err = strconv.ParseUint(before, 10, 64); err != nil || from == 0 {
			return p, fmt.Errorf("read history before %q: %w", before, ErrBefore)
		}
	}
	if err := h.view(func(f *file, tx *bolt.Tx) { p = f.read(tx, min(limit, PageMost), from) }); err != nil {
		return p, fmt.Errorf("read history: %w", err)
	}
	return p, nil
}

// view calls read in a read transaction of the file.
func (h *History) view(read func(f *file, tx *bolt.Tx)) error {
	h.mu.Lock()
	f := h.file
	h.mu.Unlock()
	if f.db == nil {
		return errNoFile
	}
	return guarded(func() error {
		return f.db.View(func(tx *bolt.Tx) error {
			read(&f, tx)
			return nil
		})
	})
}

// Removals returns when things of a kind were removed since a time, by ebb's clock, the oldest
// first. It leaves out entries for which counts returns false. It counts removals without an outcome,
// because an agent that was killed may have made them. Entries that could not be written, or cannot be
// read, are missing.
func (h *History) Removals(kind string, since time.Time, counts func(page.HistoryEntry) bool) (times []time.Time) {
	err := h.view(func(f *file, tx *bolt.Tx) {
		for _, s := range []bucket{begun, removals} {
			b := tx.Bucket(buckets[s])
			if b == nil || f.damaged[s] {
				continue
			}
			var c cursor
			for c.start(b, 0); c.k != nil; c.k, c.v = c.c.Prev() {
				e, err := decode(c.v)
				if err == nil && e.Time.Before(since) {
					break
				}
				if err == nil && e.Kind == kind && (e.Outcome == page.OutcomeBegun || e.Outcome == page.OutcomeRemoved) && counts(e) {
					times = append(times, e.Time)
				}
			}
		}
	})
	if err != nil {
		return nil // the next Read reports it
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// read merges the buckets, newest first, from the newest key below before. It leaves out invalid
// entries.
func (f *file) read(tx *bolt.Tx, limit int, before uint64) page.History {
	p := page.History{Entries: []page.HistoryEntry{}}
	var side [bucketCount]cursor
	for s := begun; s < bucketCount; s++ {
		if b := tx.Bucket(buckets[s]); b != nil && !f.damaged[s] {
			side[s].start(b, before)
		}
	}
	last := ""
	for {
		newest := &side[begun]
		for s := range side {
			if bytes.Compare(side[s].k, newest.k) > 0 {
				newest = &side[s]
			}
		}
		if newest.k == nil {
			return p
		}
		if e, err := decode(newest.v); err == nil {
			if len(p.Entries) == limit {
				p.Next = last
				return p
			}
			p.Entries = append(p.Entries, e)
			last = strconv.FormatUint(keyOf(newest.k), 10)
		}
		newest.k, newest.v = newest.c.Prev()
	}
}

// cursor reads one bucket from the newest to the oldest; k is nil when there is no more.
type cursor struct {
	c    *bolt.Cursor
	k, v []byte
}

func (c *cursor) start(b *bolt.Bucket, before uint64) {
	c.c = b.Cursor()
	if before != 0 {
		if k, _ := c.c.Seek(keyBytes(before)); k != nil {
			c.k, c.v = c.c.Prev()
			return
		}
	}
	c.k, c.v = c.c.Last()
}
