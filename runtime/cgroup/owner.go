package cgroup

import (
	"strings"

	"github.com/ebb-agent/ebb/runtime/inventory"
)

// idDigits is the length of an id that a runtime generates.
const idDigits = 64

// maxElements and maxDashes bound how much of a path is tried: users of the node can choose the
// path.
const (
	maxElements = 64
	maxDashes   = 8
)

// Containers finds the container that a cgroup belongs to.
type Containers struct {
	byID map[string][]inventory.Container // one per namespace that has the id
}

// NewContainers indexes the containers that the runtime lists.
func NewContainers(list []inventory.Container) *Containers {
	c := &Containers{byID: make(map[string][]inventory.Container, len(list))}
	for _, one := range list {
		c.byID[one.ID] = append(c.byID[one.ID], one)
	}
	return c
}

// Owner returns the container that a cgroup path belongs to; false if the runtime did not list it.
func (c *Containers) Owner(path string) (inventory.Container, bool) {
	above := ""
	for range maxElements {
		var element string
		element, path, _ = strings.Cut(strings.TrimLeft(path, "/"), "/")
		if element == "" {
			break
		}
		if owner, ok := c.named(element, above); ok {
			return owner, true
		}
		above = element
	}
	return inventory.Container{}, false
}

// named finds the container that an element of a path names; above is the element before it.
func (c *Containers) named(element, above string) (inventory.Container, bool) {
	for _, one := range c.byID[element] {
		if len(element) == idDigits || one.Namespace == above {
			return one, true
		}
	}
	name, ok := strings.CutSuffix(element, ".scope")
	if !ok {
		return inventory.Container{}, false
	}
	// Both prefix and id may have dashes in them.
	for range maxDashes {
		if _, name, ok = strings.Cut(name, "-"); !ok {
			break
		}
		if found := c.byID[name]; len(found) > 0 {
			return found[0], true
		}
	}
	return inventory.Container{}, false
}
