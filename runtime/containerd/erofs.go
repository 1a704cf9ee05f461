package containerd

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// erofsLayers finds the filesystem images of a snapshot's layers in its mounts, topmost first: the
// erofs snapshotter mounts one for each layer, and an overlay over them. Layers merged into one
// index are unsupported: a read of a file does not show its layer.
func erofsLayers(mounts []mount.Mount) ([]string, error) {
	var files []string
	for _, m := range mounts {
		if m.Type != "erofs" {
			continue
		}
		if filepath.Base(m.Source) == "fsmeta.erofs" || isRelative(m.Source) {
			return nil, fmt.Errorf("erofs mount of %.80q: %w", m.Source, inventory.ErrUnsupported)
		}
		for _, o := range m.Options {
			if strings.HasPrefix(o, "device=") {
				return nil, fmt.Errorf("erofs mount over several devices: %w", inventory.ErrUnsupported)
			}
		}
		files = append(files, m.Source)
	}
	if files == nil {
		return nil, fmt.Errorf("no erofs mounts: %w", inventory.ErrUnsupported)
	}
	return files, nil
}

// The superblock of erofs (fs/erofs/erofs_fs.h), as far as it is needed here.
const (
	erofsSuper    = 1024
	erofsMagic    = 0xe0f5e1e2
	erofsRootNid  = 14
	erofsUUID     = 48
	erofsIncompat = 80
	erofs48Bit    = 0x80 // the root's inode number is stored elsewhere
)

// erofsPlace reads from a filesystem image the UUID and the root's inode number, by which the
// kernel identifies it once mounted.
func erofsPlace(path string) (inventory.Place, error) {
	f, err := os.Open(path)
	if err != nil {
		return inventory.Place{}, err
	}
	defer f.Close()
	super := make([]byte, 128)
	if _, err := f.ReadAt(super, erofsSuper); err != nil && err != io.EOF {
		return inventory.Place{}, err
	}
	place, err := parseErofs(super)
	if err != nil {
		return inventory.Place{}, fmt.Errorf("%s: %w", path, err)
	}
	place.Path = path
	return place, nil
}

func parseErofs(super []byte) (inventory.Place, error) {
	if len(super) < 128 || binary.LittleEndian.Uint32(super) != erofsMagic {
		return inventory.Place{}, fmt.Errorf("not an erofs image: %w", inventory.ErrUnsupported)
	}
	if binary.LittleEndian.Uint32(super[erofsIncompat:])&erofs48Bit != 0 {
		return inventory.Place{}, fmt.Errorf("erofs image with 48-bit addresses: %w", inventory.ErrUnsupported)
	}
	place := inventory.Place{
		Ino: uint64(binary.LittleEndian.Uint16(super[erofsRootNid:])), UUID: [16]byte(super[erofsUUID:]),
	}
	if place.UUID == ([16]byte{}) {
		return inventory.Place{}, fmt.Errorf("erofs image without a UUID: %w", inventory.ErrUnsupported)
	}
	return place, nil
}
