package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
)

// maxNodes is more than any cluster has.
const maxNodes = 100_000

// nodes returns how many nodes are to run an agent, from the status of the agents' DaemonSet as the
// server's cache has it. The number can be some seconds old.
func (s *APIServer) nodes(ctx context.Context) (int, error) {
	if s.daemonSet == "" {
		return 0, errors.New("the agents' DaemonSet is not known")
	}
	ctx, cancel := context.WithTimeout(ctx, s.timing.call)
	defer cancel()
	resp, err := s.client.get(ctx, s.daemonSet, "application/json", url.Values{"resourceVersion": {"0"}})
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var set struct {
		Status struct {
			Desired *int `json:"desiredNumberScheduled"`
		} `json:"status"`
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&set)
	n := set.Status.Desired
	if err != nil || n == nil || *n < 0 || *n > maxNodes {
		return 0, s.client.broken(s.client.op(s.daemonSet), nonsense("the answer is no DaemonSet with a number of nodes: %v", err))
	}
	return *n, nil
}
