package e2e

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/tools/node"
)

const (
	mib    = 1 << 20
	prefix = "e2e.test/"
)

// scenario is the images of a test, by names without the prefix, and the truth
// about their use.
type scenario struct {
	images map[string]node.Image
	ids    map[string]string // name → ID
	order  []string          // names, least recently used first
}

func newScenario() *scenario {
	return &scenario{images: make(map[string]node.Image), ids: make(map[string]string)}
}

// ref is the full reference of an image.
func ref(name string) string { return prefix + name + ":1" }

// plain is an image with a layer of its own above the busybox that all share.
func plain(name string, bytes int64) node.Image {
	return node.Image{Name: ref(name), Layers: []node.Layer{{Seed: "own-" + name, Bytes: bytes}}}
}

// sharing is an image that shares one more layer with others.
func sharing(name, shared string, bytes int64) node.Image {
	i := plain(name, bytes)
	i.Layers = append([]node.Layer{{Seed: "shared-" + shared, Bytes: bytes}}, i.Layers...)
	return i
}

func nameOf(i node.Image) string {
	return strings.TrimSuffix(strings.TrimPrefix(i.Name, prefix), ":1")
}

// used notes that an image is now the newest.
func (c *scenario) used(name string) {
	c.forget(name)
	c.order = append(c.order, name)
}

func (c *scenario) forget(name string) {
	c.order = slices.DeleteFunc(c.order, func(n string) bool { return n == name })
}

// name returns the name of an image, or its ID if it is none of its images.
func (c *scenario) name(id string) string {
	for name, have := range c.ids {
		if have == id {
			return name
		}
	}
	return id
}

// goes returns the n images that have to go first, least recently used first,
// if those in stays must not go, and how many bytes the last of them frees. An
// unpacked layer is on the disk twice, as a blob and as files, and goes with
// the last image that has it.
func (c *scenario) goes(n int, stays ...string) (names []string, lastFrees int64) {
	holders := make(map[string]int)
	for _, i := range c.images {
		for _, l := range i.Layers {
			holders[l.Seed]++
		}
	}
	for _, name := range c.order {
		if slices.Contains(stays, name) {
			continue
		}
		if len(names) == n {
			break
		}
		names, lastFrees = append(names, name), 0
		for _, l := range c.images[name].Layers {
			if holders[l.Seed]--; holders[l.Seed] == 0 {
				lastFrees += 2 * l.Bytes
			}
		}
	}
	return names, lastFrees
}

// misplaced compares the agent's order of last use with the true one; nil if
// it is right.
func (c *scenario) misplaced(e page.Images) error {
	seen := slices.DeleteFunc(slices.Clone(e.Images), func(i page.Image) bool {
		return i.LastUsed == nil || !slices.Contains(c.order, c.name(i.ID))
	})
	slices.SortFunc(seen, func(a, b page.Image) int { return a.LastUsed.Compare(*b.LastUsed) })
	got := make([]string, len(seen))
	for n, i := range seen {
		got[n] = c.name(i.ID)
	}
	if !slices.Equal(got, c.order) {
		return fmt.Errorf("order of last use: the agent has %v, the truth is %v", got, c.order)
	}
	return nil
}

// splitWords cuts a text for people into its words.
func splitWords(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
}
