package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// File is the name of the state file in its directory.
const File = "state.db"

// suffixNew ends the name of a file that is being made.
const suffixNew = ".new"

// schema is the version of what is in the file. A file of another version is
// treated like a corrupt one: moved aside, never rewritten.
const schema = "1"

// lockWait bounds the wait for another process that has the file open.
const lockWait = 2 * time.Second

var (
	bucketMeta     = []byte("meta")
	bucketImages   = []byte("images")
	bucketLayers   = []byte("layers")
	bucketRemoved  = []byte("removed")
	bucketObserved = []byte("observed")
	keySchema      = []byte("schema")
	keyMeta        = []byte("meta")
	keyWanted      = []byte("wanted")
)

// ErrLocked is returned (wrapped) when another process holds the state file.
var ErrLocked = errors.New("state file is in use by another process")

// Store is an open state file. Its methods must not be called concurrently.
type Store struct {
	db   *bolt.DB
	last Records // what the file holds, to write only what changed
}

// Open opens or creates the state file in dir and reads it. movedAside is not
// empty if a file was there that could not be read: it has been renamed to
// that path, and the records are empty. Errors: the directory or file cannot
// be written (the records are then what could be read), or ErrLocked. The caller
// holds the node's lock, so that no other process opens or removes the file meanwhile.
func Open(dir string, now time.Time) (s *Store, r Records, movedAside string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, New(), "", fmt.Errorf("create state directory: %w", err)
	}
	path := filepath.Join(dir, File)
	open := openDB
	r, err = readChecked(path)
	switch {
	case err == nil:
	case errors.Is(err, ErrLocked), errors.Is(err, fs.ErrPermission):
		return nil, New(), "", fmt.Errorf("open %s: %w", path, err)
	case errors.Is(err, fs.ErrNotExist):
		if _, there := os.Lstat(path); there == nil { // a link to a disk that is not mounted
			return nil, New(), "", fmt.Errorf("open %s: %w", path, err)
		}
		r, open = New(), create
	default:
		if movedAside, err = moveAside(path, now, err); err != nil {
			return nil, New(), "", err
		}
		r, open = New(), create
	}
	db, err := open(path)
	if err != nil {
		return nil, r, movedAside, fmt.Errorf("open %s: %w", path, err)
	}
	return &Store{db: db, last: r.Clone()}, r, movedAside, nil
}

// create makes an empty file, which appears at path whole or not at all: a process killed while
// bbolt writes its first pages would otherwise leave a damaged one.
func create(path string) (*bolt.DB, error) {
	fresh := path + suffixNew
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	db, err := openDB(fresh)
	if err == nil {
		if err = initialise(db); err == nil {
			if err = os.Rename(fresh, path); err == nil {
				return db, nil
			}
		}
		err = errors.Join(err, db.Close())
	}
	_ = os.Remove(fresh) // a full disk needs the space
	return nil, err
}

func openDB(path string) (*bolt.DB, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait, FreelistType: bolt.FreelistMapType})
	return db, locked(err)
}

func locked(err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return ErrLocked
	}
	return err
}

// moveAside renames the file out of the way, so that a person can inspect it.
func moveAside(path string, now time.Time, why error) (string, error) {
	aside := fmt.Sprintf("%s.corrupt-%s", path, now.UTC().Format("20060102T150405.000000000Z"))
	if err := os.Rename(path, aside); err != nil {
		return "", fmt.Errorf("move unreadable state file aside (%w): %w", why, err)
	}
	return aside, nil
}

func initialise(db *bolt.DB) error {
	return db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketImages, bucketLayers} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketMeta).Put(keySchema, []byte(schema))
	})
}

// DB returns the file, for packages that have their own buckets in it. It may be used concurrently
// with the other methods.
func (s *Store) DB() *bolt.DB { return s.db }

// Close releases the file.
func (s *Store) Close() error { return s.db.Close() }

// Save writes what differs from the file, in one transaction, and syncs it. After an error the file
// is as before and the next Save tries again. The records are the Store's from then on; the caller
// must not modify them.
func (s *Store) Save(r Records) error {
	changes := changed(s.last, r)
	if len(changes) == 0 && r.Facts == nil {
		return nil
	}
	err := s.db.Update(func(tx *bolt.Tx) error {
		for _, c := range changes {
			b, err := tx.CreateBucketIfNotExists(c.bucket) // files of earlier versions lack some
			if err != nil {
				return err
			}
			if c.value == nil {
				if err := b.Delete(c.key); err != nil {
					return err
				}
			} else if err := b.Put(c.key, c.value); err != nil {
				return err
			}
		}
		return saveFacts(tx, r.Facts)
	})
	if err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	r.Facts = nil
	s.last = r
	return nil
}

// readChecked reads the whole file, trusting nothing in it.
func readChecked(path string) (r Records, err error) {
	if _, err := os.Stat(path); err != nil {
		return r, err
	}
	// Both a page past the end of a truncated file (a fault) and bbolt's own
	// assertions (panics) become errors here.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged: %v", p)
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockWait, ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		return r, locked(err)
	}
	defer db.Close() // read-only: nothing can be lost
	r = New()
	err = db.View(func(tx *bolt.Tx) error {
		if err := checkPages(tx); err != nil {
			return err
		}
		return read(tx, &r)
	})
	return r, err
}

// checkPages runs bbolt's consistency check, which works in a goroutine of its own, where a fault
// would not be caught. So everything that the check reads is touched here first: pages, keys and
// values, and by seeking each key the keys of the branches that lead to it. Any of them may point
// past the end of the file.
func checkPages(tx *bolt.Tx) error {
	touched := byte(0)
	err := tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
		return b.ForEach(func(k, v []byte) error {
			for _, some := range [][]byte{k, v} {
				for _, c := range some {
					touched ^= c
				}
			}
			b.Cursor().Seek(k)
			return nil
		})
	})
	if err != nil {
		return err
	}
	runtime.KeepAlive(touched)
	for id := 0; ; id++ {
		p, err := tx.Page(id)
		if err != nil {
			return err
		}
		if p == nil {
			break
		}
	}
	var errs []error
	for err := range tx.Check() { // must be drained, or its goroutine leaks
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func read(tx *bolt.Tx, r *Records) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return errors.New("no meta bucket")
	}
	if v := meta.Get(keySchema); string(v) != schema {
		return fmt.Errorf("schema %q, want %q", v, schema)
	}
	if v := meta.Get(keyMeta); v != nil {
		if err := json.Unmarshal(v, &r.Meta); err != nil {
			return fmt.Errorf("meta: %w", err)
		}
	}
	r.readWanted(meta.Get(keyWanted))
	r.readContainers(meta)
	same := shared{}
	if b := tx.Bucket(bucketImages); b != nil {
		if err := b.ForEach(func(k, v []byte) error {
			var i Image
			if err := json.Unmarshal(v, &i); err != nil {
				return fmt.Errorf("image %q: %w", k, err)
			}
			r.Images[same.of(string(k))] = i
			return nil
		}); err != nil {
			return err
		}
	}
	if b := tx.Bucket(bucketLayers); b != nil {
		if err := b.ForEach(func(k, v []byte) error {
			var key inventory.Layer
			var l Layer
			if err := errors.Join(json.Unmarshal(k, &key), json.Unmarshal(v, &l)); err != nil {
				return fmt.Errorf("layer %q: %w", k, err)
			}
			for i := range l.Below {
				l.Below[i].Path = same.of(l.Below[i].Path)
			}
			r.Layers[inventory.Layer{
				Namespace: same.of(key.Namespace), Snapshotter: same.of(key.Snapshotter), ChainID: same.of(key.ChainID),
			}] = l
			return nil
		}); err != nil {
			return err
		}
	}
	readByID(tx.Bucket(bucketRemoved), r.Removed)
	readByID(tx.Bucket(bucketObserved), r.Observed)
	r.Facts = readFacts(tx, same)
	return nil
}

// readByID reads a bucket with IDs as keys. It leaves out values that cannot be decoded.
func readByID[V any](b *bolt.Bucket, into map[string]V) {
	each(b, func(k, v []byte) {
		var one V
		if json.Unmarshal(v, &one) == nil {
			into[string(k)] = one
		}
	})
}
