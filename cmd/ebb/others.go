package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/doctor/kubelet"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/show"
	"github.com/ebb-agent/ebb/agent/uninstall"
)

// others finds who collects garbage beside ebb: it asks the kubelets of nodes, and reads the arguments
// of kube-controller-managers that run as pods.
func (a *agentAccess) others(ctx context.Context, nodes []show.Node[page.Status]) (*show.Others, error) {
	api, err := a.api()
	if err != nil {
		return nil, err
	}
	defer api.Close()
	o := &show.Others{Kubelets: map[string]int{}, KubeletsUnknown: map[string]int{}}
	managers, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	o.Managers, o.ManagersOff, o.ManagersAtRisk = uninstall.Managers(managers, api)
	asked := &kubelets{api: api}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(desk.InFlight)
	for _, n := range nodes {
		if n.Err != nil { // its kubelet would be waited for, too
			mu.Lock()
			o.KubeletsUnknown["the agent does not answer"]++
			mu.Unlock()
			continue
		}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, a.timeout)
			defer cancel()
			when, unknown := collectsImages(ctx, asked, n.Name)
			mu.Lock()
			defer mu.Unlock()
			if unknown != "" {
				o.KubeletsUnknown[unknown]++
			} else {
				o.Kubelets[when]++
			}
			return nil
		})
	}
	return o, group.Wait()
}

// collectsImages returns when a kubelet removes images. unknown is why that is not known.
func collectsImages(ctx context.Context, k *kubelets, node string) (when, unknown string) {
	var answer json.RawMessage
	if unknown = k.get(ctx, node, "configz", &answer); unknown != "" {
		return "", unknown
	}
	s, err := kubelet.FromAnswer(answer)
	switch percent := s.ImageGCHighThresholdPercent.V; {
	case err != nil:
		return "", err.Error()
	case !s.CollectsImages():
		return "never", ""
	case percent == 100:
		return "by age", ""
	default:
		return fmt.Sprintf("from %d%%", percent), ""
	}
}
