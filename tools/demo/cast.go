package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/tools/node"
)

const (
	baseBytes    = 24 * mib
	privateBytes = 8 * mib
	sharedBytes  = 6 * mib

	prefix     = "demo.test/"
	sharingOne = "api:1"
	sharingTwo = "api:2"
)

// cast holds the images of the demo and their true use, against which the agent is
// checked.
type cast struct {
	images []node.Image
	ids    map[string]string // name → ID
	order  []string          // names, least recently used first
}

func newCast() *cast {
	base := node.Layer{Seed: "base", Bytes: baseBytes, Files: 12}
	shared := node.Layer{Seed: "api-common", Bytes: sharedBytes}
	c := &cast{ids: make(map[string]string)}
	for _, name := range []string{"cron:3", sharingOne, "batch:7", "tool:2", sharingTwo, "web:5", "mail:1", "queue:4", "proxy:9", "docs:6"} {
		layers := []node.Layer{base}
		if name == sharingOne || name == sharingTwo {
			layers = append(layers, shared)
		}
		own := node.Layer{Seed: strings.ReplaceAll(name, ":", "-"), Bytes: privateBytes, Files: 4}
		c.images = append(c.images, node.Image{Name: prefix + name, Layers: append(layers, own)})
	}
	return c
}

func (c *cast) importAll(ctx context.Context, n *node.Node) error {
	ids, err := n.ImportAll(ctx, node.CRINamespace, c.images)
	if err != nil {
		return err
	}
	for i, id := range ids {
		c.ids[c.images[i].Name] = id
	}
	return nil
}

func (c *cast) named(name string) node.Image {
	i := slices.IndexFunc(c.images, func(i node.Image) bool { return i.Name == prefix+name })
	return c.images[i]
}

func (c *cast) kept() node.Image    { return c.named("tool:2") }
func (c *cast) running() node.Image { return c.named("web:5") }

func (c *cast) nameOf(id string) string {
	for name, have := range c.ids {
		if have == id {
			return name
		}
	}
	return id
}

// used records that an image is now the most recently used.
func (c *cast) used(name string) {
	c.order = append(slices.DeleteFunc(c.order, func(n string) bool { return n == name }), name)
}

func (c *cast) oldest() string { return c.order[0] }

// misplaced compares the agent's order of last use with the true one. It returns the
// first difference, or "".
func (c *cast) misplaced(e page.Images) string {
	seen := slices.DeleteFunc(slices.Clone(e.Images), func(i page.Image) bool {
		return i.LastUsed == nil || !slices.Contains(c.order, c.nameOf(i.ID))
	})
	slices.SortFunc(seen, func(a, b page.Image) int { return a.LastUsed.Compare(*b.LastUsed) })
	for i, want := range c.order {
		if i >= len(seen) {
			return fmt.Sprintf("the agent knows no use of %s", short(want))
		}
		if got := c.nameOf(seen[i].ID); got != want {
			return fmt.Sprintf("place %d by last use is %s for the agent, but truly %s", i+1, short(got), short(want))
		}
	}
	return ""
}

// goes returns the images that must be removed to free that many bytes, least recently
// used first, by the sizes they were built with. It takes as few as needed: of those
// that are not needed after all, it keeps the most recently used.
func (c *cast) goes(bytes int64) []string {
	var goes []string
	for _, name := range c.order {
		if c.frees(goes) >= bytes {
			break
		}
		if name != c.kept().Name && name != c.running().Name {
			goes = append(goes, name)
		}
	}
	for i := len(goes) - 1; i >= 0; i-- {
		if fewer := slices.Delete(slices.Clone(goes), i, i+1); c.frees(fewer) >= bytes {
			goes = fewer
		}
	}
	return goes
}

// frees returns the bytes that the removal of these images frees. An unpacked layer is
// on the disk twice: as a blob and as files.
func (c *cast) frees(names []string) int64 {
	bytes := 2 * privateBytes * int64(len(names))
	if slices.Contains(names, prefix+sharingOne) && slices.Contains(names, prefix+sharingTwo) {
		bytes += 2 * sharedBytes
	}
	return bytes
}

func short(name string) string { return strings.TrimPrefix(name, prefix) }

// readAll reads every file below dir. It skips files that vanish during the walk, such
// as those of a View of the agent.
func readAll(dir string) (read int64, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path != dir {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := io.Copy(io.Discard, f)
		read += n
		return err
	})
	return read, err
}
