package bpf

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// errForeign: pins whose maps or programs are not those that this version makes.
var errForeign = errors.New("unknown layout")

// openMaps opens the named maps of the set pinned at dir. fits checks the shape of
// each.
func openMaps(dir string, names []string, fits func(name string, m *ebpf.Map) error) (_ map[string]*ebpf.Map, err error) {
	if err := trustedSet(dir); err != nil {
		return nil, err
	}
	all := map[string]*ebpf.Map{}
	defer func() {
		if err != nil {
			closeMaps(all)
		}
	}()
	for _, name := range names {
		m, err := ebpf.LoadPinnedMap(filepath.Join(dir, "maps", name), nil)
		if err != nil {
			return nil, fmt.Errorf("open map %s: %w", name, err)
		}
		all[name] = m
		if err := fits(name, m); err != nil {
			return nil, fmt.Errorf("map %s: %w", name, err)
		}
	}
	return all, nil
}

func closeMaps(all map[string]*ebpf.Map) {
	for _, m := range all {
		m.Close()
	}
}

// like returns a check that accepts maps with the type and the key and value sizes
// of those in s.
func like(s *set) func(string, *ebpf.Map) error {
	return func(name string, m *ebpf.Map) error {
		own := s.maps[name]
		if m.Type() != own.Type() || m.KeySize() != own.KeySize() || m.ValueSize() != own.ValueSize() {
			return errForeign
		}
		return nil
	}
}

// readArray returns the first n values of an array.
func readArray[V any](m *ebpf.Map, n uint32) ([]V, error) {
	keys, values := make([]uint32, n), make([]V, n)
	var cursor ebpf.MapBatchCursor
	for read := 0; read < int(n); {
		got, err := m.BatchLookup(&cursor, keys[read:], values[read:], nil)
		read += got
		if errors.Is(err, ebpf.ErrKeyNotExist) && read == int(n) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%d of %d: %w", read, n, err)
		}
	}
	return values, nil
}

// readHash reads a hash in one call. The kernel copies bucket by bucket, each under
// its lock, and an update leaves an entry in its bucket. So no entry that exists
// during the whole call is missed, as can happen when iterating.
func readHash[K comparable, V any](m *ebpf.Map) (map[K]V, error) {
	keys, values := make([]K, m.MaxEntries()), make([]V, m.MaxEntries())
	var cursor ebpf.MapBatchCursor
	n, err := m.BatchLookup(&cursor, keys, values, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, err
	}
	read := make(map[K]V, n)
	for i := range n {
		read[keys[i]] = values[i]
	}
	return read, nil
}

func lookupOrZero(m *ebpf.Map, key any) (uint64, error) {
	var v uint64
	err := m.Lookup(key, &v)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, nil
	}
	return v, err
}

// deleteKey deletes an entry that may be gone already.
func deleteKey(m *ebpf.Map, key any) error {
	if err := m.Delete(key); !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	return nil
}

// mapFull returns ErrFull for E2BIG, the kernel's error for a full map, and every
// other error as it is.
func mapFull(err error) error {
	if errors.Is(err, unix.E2BIG) {
		return ErrFull
	}
	return err
}
