package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
	"github.com/ebb-agent/ebb/tools/socketrelay"
)

// many is how many nodes TestRequestsOfManyNodes has. "make bench-pods" has 500.
const many = 20

// manyNodes is sources of many nodes on one API server, behind a relay.
type manyNodes struct {
	*peerstest.Cluster
	relay   *socketrelay.Relay
	sources []*kube.APIServer
	stop    func()
}

func startMany(t *testing.T) *manyNodes {
	t.Helper()
	m := &manyNodes{Cluster: peerstest.Start(t, peers.Config{Audit: true})}
	var err error
	if m.relay, err = socketrelay.StartTCP(m.Address()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.relay.Close(); err != nil {
			t.Error(err)
		}
	})
	file, err := m.Kubeconfig("ebb-agent", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	direct, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(m.relay.In(string(direct))), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var g sync.WaitGroup
	m.stop = sync.OnceFunc(func() { cancel(); g.Wait() })
	t.Cleanup(m.stop)
	for i := range many {
		m.pod(t, http.MethodPost, i, 0)
		m.pod(t, http.MethodPost, i, 1)
		s, err := kube.NewAPIServer(kube.APIServerOptions{NodeName: fmt.Sprint("node-", i), Kubeconfig: file, ListSpread: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		m.sources = append(m.sources, s)
		g.Go(func() { _ = s.Run(ctx, make(chan struct{}, 1)) })
	}
	return m
}

// pod makes or deletes one of a node.
func (m *manyNodes) pod(t *testing.T, method string, node, n int) {
	t.Helper()
	path, name := "/api/v1/namespaces/default/pods", fmt.Sprintf("pod-%d-%d", node, n)
	var in any
	if method == http.MethodPost {
		in = peers.PodSpec{Name: name, NodeName: fmt.Sprint("node-", node), Image: image}.Manifest()
	} else {
		path, in = path+"/"+name, map[string]any{"gracePeriodSeconds": 0}
	}
	await.Holds(t, patience, method+" "+name, func(ctx context.Context) error { return m.Ask(ctx, method, path, in, nil) })
}

// all waits until what holds of the pods of each node.
func (m *manyNodes) all(t *testing.T, what string, holds func(kube.Pods, error) error) {
	t.Helper()
	for i, s := range m.sources {
		await.Holds(t, patience, fmt.Sprintf("%s, node %d", what, i), func(ctx context.Context) error {
			p, err := s.Pods(ctx)
			return holds(p, err)
		})
	}
}

func count(n int) func(kube.Pods, error) error {
	return func(p kube.Pods, err error) error {
		if err == nil && len(p.List) != n {
			err = fmt.Errorf("%d pods", len(p.List))
		}
		return err
	}
}

func unknown(_ kube.Pods, err error) error {
	if err == nil {
		return errors.New("known")
	}
	return nil
}

// An agent asks for the newest version, which shows that the server is there, and again when it is its
// turn; it lists once and watches. An outage of the network costs each agent
// a watch and no list. An outage of the server, which forgets its past, costs one list.
// Every list demands a result that is not older than the version that the server gave before.
func TestRequestsOfManyNodes(t *testing.T) {
	m := startMany(t)
	m.all(t, "the first list", count(2))
	m.relay.Away()
	m.all(t, "an outage", unknown)
	for i := range many {
		m.pod(t, http.MethodDelete, i, 1)
	}
	m.relay.Back()
	m.all(t, "the way back", count(1))

	m.relay.Away()
	m.all(t, "another outage", unknown)
	restarted := time.Now()
	if err := m.APIServer.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		m.pod(t, http.MethodPost, i, 2)
	}
	m.relay.Back()
	m.all(t, "another server", count(2))
	m.stop() // which ends the watches, and only then the server notes them
	before, after := m.requests(t, restarted)
	if before["list"] != many || before["newest"] != 2*many || before["watch"] < many {
		t.Errorf("before the server was restarted %d nodes sent %v", many, before)
	}
	if after["list"] > many || after["get"] > 0 {
		t.Errorf("after the server was restarted %d nodes sent %v", many, after)
	}
	t.Logf("%d nodes: %v, and with another server %v", many, before, after)
}

// requests counts what the server was asked, until the last watch is there that must be.
func (m *manyNodes) requests(t *testing.T, from time.Time) (before, after map[string]int) {
	t.Helper()
	await.Holds(t, patience, "the audit log", func(context.Context) error {
		before, after = make(map[string]int), make(map[string]int)
		_, err := m.ReadAudit(0, func(e peers.AuditEvent) {
			if e.User.Username != "ebb-agent" {
				return
			}
			counts := before
			if e.RequestReceivedTimestamp.After(from) {
				counts = after
			}
			counts[m.kind(t, e)]++
		})
		if err == nil && after["watch"] < many {
			err = fmt.Errorf("%d watches of %d", after["watch"], many)
		}
		return err
	})
	return before, after
}

func (m *manyNodes) kind(t *testing.T, e peers.AuditEvent) string {
	t.Helper()
	u, err := url.Parse(e.RequestURI)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	switch {
	case e.Verb == "list" && strings.HasPrefix(q.Get("fieldSelector"), "metadata.name="):
		return "newest"
	case e.Verb == "list":
		if q.Get("resourceVersionMatch") != "NotOlderThan" || q.Get("resourceVersion") == "0" || q.Get("resourceVersion") == "" {
			t.Errorf("a list that does not limit how old it may be: %s", e.RequestURI)
		}
	}
	return e.Verb
}
