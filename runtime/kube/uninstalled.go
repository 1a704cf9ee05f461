package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Uninstalled reports whether ebb is being removed from the cluster, with the reason; "" if it is not.
// It is for an agent that was told to stop and may get the namespace and the DaemonSet of ebb.
//
// It is being removed if one of the two is gone or being deleted. The agent's account and its rights
// go in the same deletion, so an API server that refuses it says the same. No answer says nothing.
func (s *APIServer) Uninstalled(ctx context.Context, namespace, daemonSet string) (reason string, err error) {
	if !validObjectName(namespace) || !validObjectName(daemonSet) {
		return "", fmt.Errorf("ask for DaemonSet %q: it cannot have that name", fault.Clean(namespace+"/"+daemonSet))
	}
	ctx, cancel := context.WithTimeout(ctx, s.timing.call)
	defer cancel()
	for _, o := range []struct{ path, group, kind, name string }{
		{"/api/v1/namespaces/" + namespace, "", "namespaces", namespace},
		{daemonSetPath(namespace, daemonSet), "apps", "daemonsets", daemonSet},
	} {
		deleted, err := s.deleted(ctx, o.path)
		var answer *answerError
		switch {
		case deleted:
			return o.kind + " " + o.name + " is being deleted", nil
		case errors.As(err, &answer) && answer.notFound(o.group, o.kind, o.name):
			return o.kind + " " + o.name + " is gone", nil
		case errors.Is(err, ErrUnauthorized), errors.Is(err, ErrForbidden):
			return "the account of the agent or its rights are gone", nil
		case err != nil:
			return "", err
		}
	}
	return "", nil
}

func daemonSetPath(namespace, name string) string {
	return "/apis/apps/v1/namespaces/" + namespace + "/daemonsets/" + name
}

// deleted reports whether an object has a time of deletion.
func (s *APIServer) deleted(ctx context.Context, path string) (bool, error) {
	resp, err := s.client.get(ctx, path, "application/json", nil)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	var o struct {
		Metadata struct {
			Name              string     `json:"name"`
			DeletionTimestamp *time.Time `json:"deletionTimestamp"`
		} `json:"metadata"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&o); err != nil || o.Metadata.Name == "" {
		return false, s.client.broken(s.client.op(path), nonsense("the answer is no object: %v", err))
	}
	return o.Metadata.DeletionTimestamp != nil, nil
}
