package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ebb-agent/ebb/policy/pods"
)

// LostNode is a Node that is gone and whose Pods stay, because too many Nodes were lost at once.
type LostNode struct {
	Node string `json:"node"`
	Pods int    `json:"pods"` // that would go with it
}

// LostNodes lists the Nodes that wait for [Controller.ConfirmLost], by name.
func (c *Controller) LostNodes(ctx context.Context) (list []LostNode, err error) {
	list = []LostNode{}
	err = c.query(ctx, func(time.Time) {
		if p := c.podCollector(); p != nil {
			for name, n := range p.Held() {
				list = append(list, LostNode{name, n})
			}
		}
	})
	slices.SortFunc(list, func(a, b LostNode) int { return strings.Compare(a.Node, b.Node) })
	return list, err
}

// ConfirmLost says that a person has seen that Nodes are gone. Their Pods go, as those of any lost
// Node. other are the names that nobody waits for. A restart, or another leader, asks again.
func (c *Controller) ConfirmLost(ctx context.Context, names []string) (other []string, err error) {
	err = c.query(ctx, func(now time.Time) {
		p := c.podCollector()
		for _, name := range names {
			if p == nil || !p.ConfirmLost(c.serverTime(now), name) {
				other = append(other, name)
				continue
			}
			c.log.Info("the Pods of a lost Node go", "reason", "a person confirmed that it is gone", "node", name)
		}
	})
	return other, err
}

// podCollector is the collector of Pods; nil if it is off.
func (c *Controller) podCollector() *pods.Collector {
	for _, a := range c.collectors.all {
		if p, ok := a.Interface.(*pods.Collector); ok {
			return p
		}
	}
	return nil
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
		http.Error(w, fmt.Sprintf("%d confirmed; no Pods wait for these Nodes: %.1000q", len(names)-len(other), other), http.StatusNotFound)
	default:
		fmt.Fprintf(w, "confirmed: the Pods of %d Nodes go\n", len(names))
	}
}
