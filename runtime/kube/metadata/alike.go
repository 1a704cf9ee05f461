package metadata

import (
	"context"
	"fmt"

	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// alike are the resources, by group version and kind, beside the first that has the kind:
// a reference to the kind may mean an object of any of them.
type alike map[[2]string][]resource

func (a alike) add(groupVersion string, r resource) {
	key := [2]string{groupVersion, r.kind}
	a[key] = append(a[key], r)
}

// absentElsewhere is nil if no other resource of the kind has the object, and each said
// so. One that has it is no answer either: its own watch tells of it.
func (c *Client) absentElsewhere(ctx context.Context, o gc.Coordinates) error {
	known := c.alike.Load()
	if known == nil {
		return nil
	}
	for _, r := range (*known)[[2]string{o.APIVersion, o.Kind}] {
		other := o
		if other.Resource = r.name; !r.namespaced {
			other.Namespace = ""
		}
		a, err := c.read(ctx, other, r.namespaced)
		switch {
		case a.State == gc.Exists && a.Object.UID == o.UID:
			return fmt.Errorf("it is one of the %s, which have the same kind", fault.Clean(r.name))
		case a.State == gc.Unknown, a.State == gc.TooBusy:
			return fmt.Errorf("read the %s, which have the same kind: %w", fault.Clean(r.name), err)
		}
	}
	return nil
}
