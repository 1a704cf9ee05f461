package orphans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-agent/ebb/agent/preview"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/orphans"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// object is the part that every object has.
type object struct {
	Metadata struct {
		Name string `json:"name"`
		UID  string `json:"uid"`
	} `json:"metadata"`
}

type serviceReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (s *serviceReference) String() string {
	if s == nil {
		return ""
	}
	return s.Namespace + "/" + s.Name
}

type condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

func (c *condition) plain() orphans.Condition {
	return orphans.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
}

// apiServices reads which other API servers are registered, and whether they are available.
func (c *cluster) apiServices(ctx context.Context) {
	t := gc.Type{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService", Resource: "apiservices"}
	err := c.client.WholeList(ctx, t, metadata.Selection{}, func(data json.RawMessage) error {
		var s struct {
			object
			Spec struct {
				Group   string            `json:"group"`
				Version string            `json:"version"`
				Service *serviceReference `json:"service"`
			} `json:"spec"`
			Status struct {
				Conditions []condition `json:"conditions"`
			} `json:"status"`
		}
		if err := json.Unmarshal(data, &s); err != nil {
			return fmt.Errorf("read an APIService: %w", err)
		}
		is := orphans.APIService{Name: s.Metadata.Name, UID: s.Metadata.UID, Version: s.Spec.Group + "/" + s.Spec.Version, Service: s.Spec.Service.String()}
		for _, x := range s.Status.Conditions {
			if x.Type == "Available" {
				is.Available, is.Since = x.plain(), x.LastTransitionTime
			}
		}
		c.look.APIService(is)
		return nil
	})
	if err != nil && !errors.Is(err, metadata.ErrNotServed) { // some clusters have no APIServices
		c.lack(preview.TypeName(t.APIVersion, t.Resource), err)
	}
}

// webhooks reads the webhook configurations, and whether the Services in them have endpoints.
func (c *cluster) webhooks(ctx context.Context) {
	problems := make(map[serviceReference]string)
	for _, t := range []gc.Type{
		{APIVersion: "admissionregistration.k8s.io/v1", Kind: "ValidatingWebhookConfiguration", Resource: "validatingwebhookconfigurations"},
		{APIVersion: "admissionregistration.k8s.io/v1", Kind: "MutatingWebhookConfiguration", Resource: "mutatingwebhookconfigurations"},
	} {
		err := c.client.WholeList(ctx, t, metadata.Selection{}, func(data json.RawMessage) error {
			var w struct {
				object
				Webhooks []struct {
					Name          string `json:"name"`
					FailurePolicy string `json:"failurePolicy"`
					ClientConfig  struct {
						Service *serviceReference `json:"service"`
					} `json:"clientConfig"`
				} `json:"webhooks"`
			}
			if err := json.Unmarshal(data, &w); err != nil {
				return fmt.Errorf("read a %s: %w", t.Kind, err)
			}
			at := gc.Coordinates{APIVersion: t.APIVersion, Kind: t.Kind, Resource: t.Resource, Name: w.Metadata.Name, UID: w.Metadata.UID}
			for i, hook := range w.Webhooks {
				s := hook.ClientConfig.Service
				if s == nil {
					continue // a URL: its server is not the cluster's
				}
				problem, known := problems[*s]
				if !known {
					problem = c.problem(ctx, *s)
					problems[*s] = problem
				}
				c.look.Webhook(orphans.Webhook{Config: at, Index: i, Name: hook.Name, Service: s.String(), Fails: hook.FailurePolicy != "Ignore", Problem: problem})
			}
			return nil
		})
		if err != nil {
			c.lack(preview.TypeName(t.APIVersion, t.Resource), err)
		}
	}
}

// problem returns what is wrong with a Service; "" if nothing is, or it could not be read.
func (c *cluster) problem(ctx context.Context, s serviceReference) string {
	at := gc.Coordinates{APIVersion: "v1", Kind: "Service", Resource: "services", Namespace: s.Namespace, Name: s.Name}
	answer, err := c.client.Read(ctx, at, true)
	switch {
	case answer.State == gc.Absent:
		return "its Service does not exist"
	case err != nil:
		c.lack("services", err)
		return ""
	}
	var is struct {
		Spec struct {
			Type string `json:"type"`
		} `json:"spec"`
	}
	if err := c.client.Whole(ctx, at, true, &is); err != nil {
		c.lack("services", err)
		return ""
	}
	if is.Spec.Type == "ExternalName" {
		return "" // its server is not the cluster's
	}
	slices := gc.Type{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice", Resource: "endpointslices", Namespaced: true}
	ready := 0
	err = c.client.WholeList(ctx, slices, metadata.Selection{Namespace: s.Namespace, Labels: "kubernetes.io/service-name=" + s.Name}, func(data json.RawMessage) error {
		var slice struct {
			Endpoints []struct {
				Conditions struct {
					Ready *bool `json:"ready"`
				} `json:"conditions"`
			} `json:"endpoints"`
		}
		if err := json.Unmarshal(data, &slice); err != nil {
			return fmt.Errorf("read an EndpointSlice: %w", err)
		}
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				ready++
			}
		}
		return nil
	})
	switch {
	case err != nil:
		c.lack(preview.TypeName(slices.APIVersion, slices.Resource), err)
	case ready == 0:
		return "its Service has no ready endpoint"
	}
	return ""
}

// namespaces reads the finalizers and conditions of the namespaces that are stuck.
func (c *cluster) namespaces(ctx context.Context, now time.Time) {
	stuck := c.look.Stuck(now)
	if len(stuck) > maxLooked {
		c.lack("conditions of namespaces", fmt.Errorf("%d namespaces are stuck, %d were read", len(stuck), maxLooked))
		stuck = stuck[:maxLooked]
	}
	preview.Each(len(stuck), func(i int) {
		var n struct {
			object
			Spec struct {
				Finalizers []string `json:"finalizers"`
			} `json:"spec"`
			Status struct {
				Conditions []condition `json:"conditions"`
			} `json:"status"`
		}
		is := orphans.Namespace{}
		if err := c.client.Whole(ctx, stuck[i], false, &n); err != nil {
			is.Unread = reason(err)
		} else if n.Metadata.UID != stuck[i].UID {
			is.Unread = "another object has its name now"
		}
		is.Finalizers = n.Spec.Finalizers
		for _, x := range n.Status.Conditions {
			is.Conditions = append(is.Conditions, x.plain())
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.look.Namespace(stuck[i].UID, is)
	})
}
