package containerd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// layerDirs finds the directories of the read-only layers in a snapshot's mounts, topmost first.
// They are the lowerdirs, or, for a view of an image with one layer, the source of a read-only bind
// mount. bind is whether a bind mount counts: a snapshotter that copies returns a bind mount of
// the copy.
func layerDirs(mounts []mount.Mount, bind bool) ([]string, error) {
	if len(mounts) != 1 {
		return nil, fmt.Errorf("%d mounts: %w", len(mounts), inventory.ErrUnsupported)
	}
	m := mounts[0]
	switch {
	case m.Type == "overlay":
		for _, o := range m.Options {
			if list, ok := strings.CutPrefix(o, "lowerdir="); ok {
				if dirs := lowers(list); !slices.ContainsFunc(dirs, isRelative) {
					return dirs, nil
				}
			}
		}
	case bind && (m.Type == "bind" || m.Type == "rbind") && strings.HasPrefix(m.Source, "/"):
		for _, o := range m.Options {
			if o == "ro" {
				return []string{m.Source}, nil
			}
		}
	}
	return nil, fmt.Errorf("mount of type %.32q: %w", m.Type, inventory.ErrUnsupported)
}

func isRelative(dir string) bool { return !strings.HasPrefix(dir, "/") }

// lowers splits a lowerdir option into its directories. As in overlayfs, a backslash escapes the
// next character.
func lowers(list string) []string {
	var dirs []string
	var b strings.Builder
	for i := 0; i < len(list); i++ {
		switch list[i] {
		case ':':
			dirs = append(dirs, b.String())
			b.Reset()
		case '\\':
			if i++; i < len(list) {
				b.WriteByte(list[i])
			}
		default:
			b.WriteByte(list[i])
		}
	}
	return append(dirs, b.String())
}
