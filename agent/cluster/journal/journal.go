package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
)

var (
	// ErrNotFound: there is no such segment.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the stored segment is not the one that was read, or there is one already.
	ErrConflict = errors.New("conflict")
	// ErrFenced: another process has taken the journal over.
	ErrFenced = errors.New("another process has taken the journal over")
	// ErrRefused: this identity may not write the journal, or the namespace does not exist.
	ErrRefused = errors.New("refused")
	// ErrFull: the journal takes no more entries.
	ErrFull = errors.New("the journal of orphaned owners is full")
)

// Segment is a part of the journal as it is stored.
type Segment struct {
	Name    string
	Version string // of the segment that was read; empty: it is not stored yet
	// Token and Sealed are set in the head alone. Token is that of the process that writes.
	Token  string
	Sealed []string // names of the other segments, the oldest first
	// Entries are the times at which UIDs were recorded, to the minute, by UID.
	Entries map[string]time.Time
}

// Store has the segments of one journal.
type Store interface {
	// Get returns a segment, or ErrNotFound.
	Get(ctx context.Context, name string) (Segment, error)
	// Put stores a segment if its Version is the stored one's or, with an empty Version, if there
	// is no such segment. Otherwise it returns ErrConflict. It returns ErrRefused if nothing can be
	// stored there. version is the new one.
	Put(ctx context.Context, s Segment) (version string, err error)
	// Delete removes a segment. A segment that does not exist is no error.
	Delete(ctx context.Context, name string) error
	// List names all segments of the journal but the head.
	List(ctx context.Context) ([]string, error)
}

const (
	// segmentSize bounds the bytes of the UIDs in a segment.
	segmentSize = 64 << 10
	// maxSegments bounds the chain.
	maxSegments = 64
	// maxTries bounds the attempts of a write that meets conflicts.
	maxTries = 5
)

// Journal is the access of one process to the journal. Its methods may be called concurrently;
// requests are sent one after the other.
type Journal struct {
	store Store
	name  string // of the head
	token string
	most  int // bytes of UIDs in a segment

	writing sync.Mutex // held during requests

	mu     sync.Mutex
	head   Segment // as it was last stored by this process
	sealed []Segment
}

// New returns a Journal whose head has this name. It sends no request yet.
func New(store Store, name string) *Journal {
	return &Journal{store: store, name: name, token: string(uuid.NewUUID()), most: segmentSize, head: Segment{Name: name, Entries: map[string]time.Time{}}}
}

// Has reports whether a UID is stored, as far as this process knows.
func (j *Journal) Has(uid string) bool {
	head, sealed := j.stored()
	if _, ok := head.Entries[uid]; ok {
		return true
	}
	return slices.ContainsFunc(sealed, func(s Segment) bool { _, ok := s.Entries[uid]; return ok })
}

// Len is the number of UIDs that are stored.
func (j *Journal) Len() int {
	head, sealed := j.stored()
	n := len(head.Entries)
	for _, s := range sealed {
		n += len(s.Entries)
	}
	return n
}

// stored returns what this process knows to be stored. These values are replaced, never changed.
func (j *Journal) stored() (head Segment, sealed []Segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.head, j.sealed
}

func (j *Journal) set(head Segment, sealed []Segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.head, j.sealed = head, sealed
}

// Taken is what was found in the journal.
type Taken struct {
	Entries map[string]time.Time
	Lost    []string // segments that the head names and that do not exist
	Absent  bool     // there was no journal: nothing was ever stored
}

// Read returns what is stored, and changes nothing: it is for a process that only
// observes.
func (j *Journal) Read(ctx context.Context) (Taken, error) {
	_, _, taken, err := j.read(ctx)
	return taken, err
}

// read reads the whole chain. A missing head counts as empty.
func (j *Journal) read(ctx context.Context) (head Segment, sealed []Segment, taken Taken, err error) {
	taken.Entries = map[string]time.Time{}
	head, err = j.store.Get(ctx, j.name)
	if errors.Is(err, ErrNotFound) {
		taken.Absent = true
		return Segment{Name: j.name}, nil, taken, nil
	}
	if err != nil {
		return head, nil, taken, fmt.Errorf("read the journal of orphaned owners: %w", err)
	}
	maps.Copy(taken.Entries, head.Entries)
	for _, name := range head.Sealed {
		s, err := j.store.Get(ctx, name)
		if errors.Is(err, ErrNotFound) {
			taken.Lost = append(taken.Lost, name)
			continue
		}
		if err != nil {
			return head, nil, taken, fmt.Errorf("read segment %s of the journal of orphaned owners: %w", name, err)
		}
		sealed = append(sealed, s)
		maps.Copy(taken.Entries, s.Entries)
	}
	return head, sealed, taken, nil
}

// TakeOver makes this process the one that writes. It returns all that is stored then: what was
// stored before, and what this process knows besides. After an error nothing counts as stored, but
// the returned entries are known all the same.
func (j *Journal) TakeOver(ctx context.Context, known map[string]time.Time) (Taken, error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.set(Segment{Name: j.name, Entries: map[string]time.Time{}}, nil)
	for range maxTries {
		head, sealed, taken, err := j.read(ctx)
		add := maps.Clone(known)
		maps.DeleteFunc(add, func(uid string, _ time.Time) bool { _, ok := taken.Entries[uid]; return ok })
		maps.Copy(taken.Entries, add)
		if err != nil {
			return taken, err
		}
		switch err := j.advance(ctx, head, sealed, add, nil); {
		case err == nil:
			j.removeStrays(ctx)
			return taken, nil
		case !errors.Is(err, ErrConflict):
			return taken, fmt.Errorf("take over the journal of orphaned owners: %w", err)
		}
	}
	return Taken{Entries: known}, fmt.Errorf("take over the journal of orphaned owners: %w", ErrConflict)
}

// Write stores the UIDs of add and removes those of forget. It returns ErrFenced if another process
// has taken the journal over.
func (j *Journal) Write(ctx context.Context, add map[string]time.Time, forget []string) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	head, sealed := j.stored()
	for range maxTries {
		err := j.advance(ctx, head, sealed, add, forget)
		if !errors.Is(err, ErrConflict) {
			return err
		}
		// An earlier answer was lost, a user edited the journal, or another process writes it now.
		all := maps.Clone(head.Entries)
		maps.DeleteFunc(all, func(uid string, _ time.Time) bool { return slices.Contains(forget, uid) })
		maps.Copy(all, add)
		add = all
		var found Segment
		if found, sealed, _, err = j.read(ctx); err != nil {
			return err
		}
		if found.Version != "" && found.Token != j.token {
			return ErrFenced
		}
		head = found
	}
	return fmt.Errorf("write the journal of orphaned owners: %w", ErrConflict)
}

// advance stores a head that follows another, by compare-and-swap. It first seals the entries that
// do not fit. A new segment is not part of the journal until the head names it.
func (j *Journal) advance(ctx context.Context, head Segment, sealed []Segment, add map[string]time.Time, forget []string) error {
	next := Segment{Name: j.name, Version: head.Version, Token: j.token, Entries: maps.Clone(head.Entries)}
	if next.Entries == nil {
		next.Entries = map[string]time.Time{}
	}
	for _, uid := range forget {
		delete(next.Entries, uid)
	}
	sealed, emptied := without(sealed, forget)
	size := 0
	for uid := range next.Entries {
		size += len(uid) + 1
	}
	for _, uid := range slices.Sorted(maps.Keys(add)) {
		if size+len(uid) >= j.most && len(next.Entries) > 0 {
			if len(sealed) >= maxSegments {
				return ErrFull
			}
			s, err := j.seal(ctx, next.Entries)
			if err != nil {
				return err
			}
			sealed = append(sealed, s)
			next.Entries, size = map[string]time.Time{}, 0
		}
		next.Entries[uid] = add[uid]
		size += len(uid) + 1
	}
	for _, s := range sealed {
		next.Sealed = append(next.Sealed, s.Name)
	}
	version, err := j.store.Put(ctx, next)
	if err != nil {
		return err
	}
	next.Version = version
	j.set(next, sealed)
	for _, name := range emptied {
		_ = j.store.Delete(ctx, name) // a stray that is left is removed when the next process takes over
	}
	return nil
}

// without returns the segments without some UIDs, and the names of those that have no UIDs left.
func without(list []Segment, forget []string) (left []Segment, emptied []string) {
	for _, s := range list {
		if slices.ContainsFunc(forget, func(uid string) bool { _, ok := s.Entries[uid]; return ok }) {
			s.Entries = maps.Clone(s.Entries)
			for _, uid := range forget {
				delete(s.Entries, uid)
			}
		}
		if len(s.Entries) == 0 {
			emptied = append(emptied, s.Name)
			continue
		}
		left = append(left, s)
	}
	return left, emptied
}

// seal stores entries in a segment of their own.
func (j *Journal) seal(ctx context.Context, entries map[string]time.Time) (Segment, error) {
	s := Segment{Name: j.name + "-" + string(uuid.NewUUID())[:8], Entries: entries}
	_, err := j.store.Put(ctx, s)
	return s, err
}

// removeStrays removes segments that a process stored but never named in a head.
func (j *Journal) removeStrays(ctx context.Context) {
	names, err := j.store.List(ctx)
	if err != nil {
		return // strays only cost space; the next process removes them
	}
	head, _ := j.stored()
	for _, name := range names {
		if !slices.Contains(head.Sealed, name) {
			_ = j.store.Delete(ctx, name)
		}
	}
}
