package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ebb-agent/ebb/agent/desk"
	"github.com/ebb-agent/ebb/agent/desk/desktest"
	"github.com/ebb-agent/ebb/agent/show"
	"github.com/ebb-agent/ebb/agent/show/showtest"
	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
	"github.com/ebb-agent/ebb/tools/peers"
)

// measureDesk measures "ebb nodes" on a cluster of 500 nodes. The API server is real, and so is
// everything between a desk and a kubelet. The kubelet and the agents are not.
func measureDesk(ctx context.Context, o options, f figures) (err error) {
	dir, err := os.MkdirTemp("", "bench-account-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	benchmark.Say("starting etcd and the API server")
	cp, err := peers.StartControlPlane(ctx, peers.Config{Name: "bench-account"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Close()) }()
	kubelet, err := desktest.Join(ctx, cp, dir, desktest.ManyNodes())
	if err != nil {
		return err
	}
	defer kubelet.Close()
	agents, err := serveStatus(filepath.Join(dir, "status.sock"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agents.Close()) }()
	kubelet.Use(filepath.Join(dir, "status.sock"))
	kubeconfig, err := cp.Kubeconfig("bench", "system:masters")
	if err != nil {
		return err
	}
	took, err := measureCommand(ctx, o, allAnswer, "nodes", "-o", "json", "--kubeconfig", kubeconfig, "--ebb-namespace", desktest.Namespace)
	if err != nil {
		return err
	}
	most := kubelet.Most()
	if most > desk.InFlight {
		return fmt.Errorf("%d nodes were asked at the same time", most)
	}
	f.set("nodes_500_s", result.Median(took))
	f.set("nodes_500_max_s", slices.Max(took))
	f.set("nodes_500_in_flight", float64(most))
	return nil
}

// serveStatus answers for all agents on one socket. The caller must close the server.
func serveStatus(socket string) (*http.Server, error) {
	status, err := json.Marshal(showtest.Status())
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	pages := http.NewServeMux()
	pages.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(status) })
	server := &http.Server{Handler: pages, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close
	return server, nil
}

// allAnswer returns an error unless the document has the status of each node.
func allAnswer(d show.Document) error {
	if len(d.Nodes) != desktest.Many {
		return fmt.Errorf("%d of %d nodes", len(d.Nodes), desktest.Many)
	}
	for _, n := range d.Nodes {
		if n["error"] != nil || n["filesystems"] == nil {
			return fmt.Errorf("node %v: %v", n["node"], n["error"])
		}
	}
	return nil
}
