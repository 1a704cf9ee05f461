package containerd

import (
	"fmt"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// layerDir finds the directory of the top read-only layer in a snapshot's
// mounts: the first lowerdir, or, for a view of an image with one layer, the
// source of a read-only bind mount. bind says whether the latter may be
// believed: a snapshotter that copies gives a bind of the copy.
func layerDir(mounts []mount.Mount, bind bool) (string, error) {
	if len(mounts) != 1 {
		return "", fmt.Errorf("%d mounts: %w", len(mounts), inventory.ErrUnsupported)
	}
	m := mounts[0]
	switch {
	case m.Type == "overlay":
		for _, o := range m.Options {
			if list, ok := strings.CutPrefix(o, "lowerdir="); ok {
				if dir := firstLower(list); strings.HasPrefix(dir, "/") {
					return dir, nil
				}
			}
		}
	case bind && (m.Type == "bind" || m.Type == "rbind") && strings.HasPrefix(m.Source, "/"):
		for _, o := range m.Options {
			if o == "ro" {
				return m.Source, nil
			}
		}
	}
	return "", fmt.Errorf("mount of type %.32q: %w", m.Type, inventory.ErrUnsupported)
}

// firstLower takes the first directory of a lowerdir option. As in overlayfs, a
// backslash takes away the special meaning of the character behind it.
func firstLower(list string) string {
	var b strings.Builder
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case ':':
			return b.String()
		case '\\':
			if i++; i < len(list) {
				b.WriteByte(list[i])
			}
		default:
			b.WriteByte(list[i])
		}
	}
	return b.String()
}
