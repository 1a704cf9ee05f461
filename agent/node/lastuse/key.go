package lastuse

import (
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/inventory"
)

// KeyOf returns the kernel programs' key of a layer.
func KeyOf(p inventory.Place) bpf.Key {
	if p.UUID != ([16]byte{}) {
		return bpf.Key{Dev: bpf.ErofsFilesystem(p.UUID), Ino: p.Ino}
	}
	return bpf.Key{Dev: p.Dev, Ino: p.Ino}
}
