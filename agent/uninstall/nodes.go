package uninstall

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
)

const (
	asking   = 16 // kubelets at a time
	nodeTime = 10 * time.Second
	// handedOver is the setting of a kubelet that removes no images for space.
	handedOver = 100
)

// checkNodes asks each kubelet whether it collects images.
func (v *Verdict) checkNodes(ctx context.Context, a *api, o CheckOptions) error {
	if o.LeaveImageGC {
		v.note("the kubelets were not asked who collects images (--leave-image-gc)")
		return nil
	}
	nodes, err := listNodes(ctx, a, url.Values{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	nodes = slices.DeleteFunc(nodes, func(n metadata) bool {
		return slices.Contains(o.LeaveNodes, n.Name) || n.Labels["kubernetes.io/os"] == "windows" // ebb does not run there
	})
	v.Nodes = len(nodes)
	var mu sync.Mutex
	var wg sync.WaitGroup
	var over, unknown, overNames, unknownNames []string
	room := make(chan struct{}, asking)
	for _, n := range nodes {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			found, err := askKubelet(ctx, a, n.Name)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				unknown, unknownNames = append(unknown, clean(n.Name)+": "+clean(err.Error())), append(unknownNames, clean(n.Name))
			case found != "":
				over, overNames = append(over, clean(n.Name)+": "+found), append(overNames, clean(n.Name))
			}
		})
	}
	wg.Wait()
	v.refuseNodes(over, overNames, unknown, unknownNames)
	return ctx.Err()
}

func (v *Verdict) refuseNodes(over, overNames, unknown, unknownNames []string) {
	if len(over) > 0 {
		v.refuse(Refusal{
			ID:   "image-gc",
			What: "nodes on which image garbage collection was handed over to ebb, and not handed back",
			Why:  "nobody would remove images there until the eviction manager removes all unused ones at once, and then evicts pods",
			Fix: []string{
				"hand images back (docs/kubelet.md, \"Hand back\"): imageGCHighThresholdPercent: 85 and imageGCLowThresholdPercent: 80 " +
					"in the kubelets' configuration, or the file that set 100 removed; then systemctl restart kubelet",
			},
			Leave: append(leaveEach("--leave-node", overNames), "--leave-image-gc"),
		}, over)
	}
	if len(unknown) > 0 {
		v.refuse(Refusal{
			ID:    "nodes",
			What:  "nodes whose kubelets do not tell who collects images",
			Why:   "image garbage collection may have been handed over there",
			Fix:   []string{"bring them back, or delete the nodes that are gone for good, and try again"},
			Leave: append(leaveEach("--leave-node", unknownNames), "--leave-image-gc"),
		}, unknown)
	}
	v.note("how many dead containers a kubelet keeps is known to its command line alone: " +
		"if --maximum-dead-containers flags were set to -1 for ebb, take them away (ebb doctor shows them)")
}

func listNodes(ctx context.Context, a *api, query url.Values) (nodes []metadata, err error) {
	err = a.list(ctx, "/api/v1/nodes", query, func() { nodes = nil }, func(m metadata) { nodes = append(nodes, m) })
	return nodes, err
}

// askKubelet asks by way of the API server. It returns what is wrong, "" if nothing.
func askKubelet(ctx context.Context, a *api, node string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTime)
	defer cancel()
	var body []byte
	q := request{method: http.MethodGet, path: "/api/v1/nodes/" + url.PathEscape(node) + "/proxy/configz", once: true}
	err := a.do(ctx, q, &body)
	switch {
	case is(err, http.StatusForbidden):
		return "", fmt.Errorf(`not allowed: "get" on nodes/proxy is needed: %w`, err)
	case errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("no answer within %s", nodeTime)
	case err != nil:
		return "", err
	}
	s, err := kubelet.FromAnswer(body)
	if err != nil {
		return "", err
	}
	if s.ImageGCHighThresholdPercent.V != handedOver {
		return "", nil
	}
	found := fmt.Sprintf("imageGCHighThresholdPercent: %d", handedOver)
	if age := s.ImageMaximumGCAge.V; age != 0 {
		found += fmt.Sprintf(" (it still removes what was not used for %s)", age)
	}
	return found, nil
}
