package orphans

import (
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/policy/gc"
)

// outages reports the API servers and webhooks that the API server depends on and cannot
// reach.
func (l *Inspection) outages(now time.Time) (list []Finding) {
	for _, s := range l.services {
		if !down(s) || !s.Since.IsZero() && now.Sub(s.Since) < l.config.OlderThan {
			continue
		}
		list = append(list, Finding{Reason: APIServiceDown, By: "service " + s.Service, Since: s.Since,
			Object: apiService(s), Command: unregister(s),
			Why: fmt.Sprintf("%s: %s. While it does not answer, no object of %s can be read, and no namespace can be deleted. "+
				"Bring the Service back. The command is for an API server that does not come back", s.Available.Reason, s.Available.Message, s.Version)})
	}
	for _, w := range l.webhooks {
		if w.Problem == "" {
			continue
		}
		does := "the requests that it checks are refused, also deletions and removals of finalizers if its rules name them"
		if !w.Fails {
			does = "each request that it checks waits for it first"
		}
		path := fmt.Sprintf("/webhooks/%d", w.Index)
		list = append(list, Finding{Reason: WebhookDown, By: "service " + w.Service, Object: w.Config,
			Why:     fmt.Sprintf("webhook %s: %s: %s. Bring the Service back. The command is for a webhook that does not come back", w.Name, w.Problem, does),
			Command: patch(w.Config, remove(path), path+"/name", w.Name)})
	}
	return list
}

func down(s APIService) bool { return s.Service != "" && s.Available.Status == "False" }

func apiService(s APIService) gc.Coordinates {
	return gc.Coordinates{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService", Resource: "apiservices", Name: s.Name, UID: s.UID}
}

func unregister(s APIService) []string { return kubectl("delete", apiService(s)) }
