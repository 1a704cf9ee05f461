package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// lostKeeper is a collector that keeps objects bound to lost Nodes if too many Nodes were lost at
// once.
type lostKeeper interface {
	Held() map[string]int // how many objects, by the Node's name
	ConfirmLost(now time.Time, node string) bool
}

// LostNode is a Node that is gone and whose objects are kept, because too many Nodes were lost at
// once.
type LostNode struct {
	Node    string         `json:"node"`
	Objects map[string]int `json:"objects"` // numbers of objects that wait for it, by collector
}

// LostNodes lists the Nodes that wait for [Controller.ConfirmLost], by name.
func (c *Controller) LostNodes(ctx context.Context) ([]LostNode, error) {
	nodes := make(map[string]map[string]int)
	err := c.loop.query(ctx, func(time.Time) {
		for name, k := range c.lostKeepers {
			for node, n := range k.Held() {
				if nodes[node] == nil {
					nodes[node] = make(map[string]int)
				}
				nodes[node][name] = n
			}
		}
	})
	list := []LostNode{}
	for name, objects := range nodes {
		list = append(list, LostNode{name, objects})
	}
	slices.SortFunc(list, func(a, b LostNode) int { return strings.Compare(a.Node, b.Node) })
	return list, err
}

// lostKeepers yields the running collectors that are lostKeepers, with their names.
func (c *Controller) lostKeepers(yield func(string, lostKeeper) bool) {
	for _, a := range c.collectors.all {
		if k, ok := a.Interface.(lostKeeper); ok && !yield(a.name.String(), k) {
			return
		}
	}
}

// ConfirmLost notes that a person has confirmed that Nodes are gone. Objects that are bound to them
// are deleted, as with any lost Node. other are the names for which no collector waits. After a
// restart, or under another leader, a person must confirm again.
func (c *Controller) ConfirmLost(ctx context.Context, names []string) (other []string, err error) {
	err = c.loop.query(ctx, func(now time.Time) {
		for _, name := range names {
			waited := false
			for _, k := range c.lostKeepers {
				waited = k.ConfirmLost(c.serverTime(now), name) || waited
			}
			if !waited {
				other = append(other, name)
				continue
			}
			c.log.Info("deleting what is bound to a lost Node", "reason", "a person confirmed that it is gone", "node", name)
		}
	})
	return other, err
}

func (c *Controller) serveConfirmLost(w http.ResponseWriter, r *http.Request) {
	names := r.URL.Query()["node"]
	if len(names) == 0 {
		http.Error(w, "want the names of Nodes: ?node=a&node=b", http.StatusBadRequest)
		return
	}
	other, err := c.ConfirmLost(r.Context(), names)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case len(other) > 0:
		http.Error(w, fmt.Sprintf("%d confirmed; nothing waits for these Nodes: %.1000q", len(names)-len(other), other), http.StatusNotFound)
	default:
		fmt.Fprintf(w, "confirmed: what is bound to %d Nodes goes\n", len(names))
	}
}
