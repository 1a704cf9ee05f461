package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/nodes"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

// later is an API server by whose clock it is later.
type later struct {
	cluster.API
	by *atomic.Int64
}

func (l later) Time(now time.Time) (time.Time, bool) {
	at, known := l.API.Time(now)
	return at.Add(time.Duration(l.by.Load())), known
}

// fleet is a cluster of Nodes, and an inventory of their machines over HTTP.
type fleet struct {
	*fixture
	t        *testing.T
	by       atomic.Int64
	r        *running
	asked    atomic.Int32
	answer   atomic.Pointer[func(http.ResponseWriter)]
	url      string
	machines []string
}

const nodesPath = "/api/v1/nodes"

func newFleet(t *testing.T) *fleet {
	f := &fleet{fixture: newFixture(t, peers.Config{Audit: true}), t: t}
	f.over = func(a cluster.API) cluster.API { return later{a, &f.by} }
	f.remembers = true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		(*f.answer.Load())(w)
	}))
	t.Cleanup(server.Close)
	f.url = server.URL + "/machines"
	f.setAnswer(f.truth)
	return f
}

func (f *fleet) setAnswer(answer func(http.ResponseWriter)) { f.answer.Store(&answer) }

func (f *fleet) now() time.Time { return time.Now().Add(time.Duration(f.by.Load())).UTC() }

// document is an inventory of machines.
func (f *fleet) document(machines []string) string {
	list := []object{}
	for _, name := range machines {
		list = append(list, object{"name": name})
	}
	data, err := json.Marshal(object{"version": 1, "time": f.now().Format(time.RFC3339), "complete": true, "count": len(list), "nodes": list})
	if err != nil {
		f.t.Error(err)
	}
	return string(data)
}

func (f *fleet) truth(w http.ResponseWriter) { io.WriteString(w, f.document(f.machines)) }

// node makes one. A ready Node has no machine in the inventory unless machine is set.
func (f *fleet) node(name string, ready bool, machine bool, more object) {
	f.t.Helper()
	metadata := object{"name": name, "labels": object{"example.com/decommissioned": "yes"}}
	if more["labels"] != nil {
		metadata["labels"] = more["labels"]
	}
	spec := object{}
	if more["taints"] != nil {
		spec["taints"] = more["taints"]
	}
	f.Must(f.t, http.MethodPost, nodesPath, object{"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
	at := stamp(time.Now())
	status := object{"conditions": []any{object{"type": "Ready", "status": map[bool]string{true: "True", false: "Unknown"}[ready],
		"lastHeartbeatTime": at, "lastTransitionTime": at}}}
	(&collectable{fixture: f.fixture, t: f.t}).status(nodesPath+"/"+name, status)
	if machine {
		f.machines = append(f.machines, name)
	}
}

const nodeLeases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

// lease of a Node, renewed at a moment.
func (f *fleet) lease(name string, at time.Time) {
	f.t.Helper()
	f.Must(f.t, http.MethodPost, nodeLeases, object{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": object{"name": name},
		"spec": object{"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": at.Format("2006-01-02T15:04:05.000000Z07:00")}})
}

// renew a Lease, as a kubelet does.
func (f *fleet) renew(name string) {
	f.t.Helper()
	var l object
	if err := f.Ask(f.t.Context(), http.MethodGet, nodeLeases+"/"+name, nil, &l); err != nil {
		f.t.Fatal(err)
	}
	l["spec"].(object)["renewTime"] = f.now().Format("2006-01-02T15:04:05.000000Z07:00")
	f.Must(f.t, http.MethodPut, nodeLeases+"/"+name, l)
}

func (f *fleet) attach(node string) {
	f.t.Helper()
	f.Must(f.t, http.MethodPost, "/apis/storage.k8s.io/v1/volumeattachments", object{"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
		"metadata": object{"name": "of-" + node}, "spec": object{"attacher": "csi.example.com", "nodeName": node, "source": object{"persistentVolumeName": "pv-" + node}}})
}

func (f *fleet) begin() {
	f.t.Helper()
	f.r = f.start(f.t, f.kubeconfig, func(c *config.Config) {
		n := &c.Collectors.Nodes
		n.Mode, n.Label, n.MaxShare = config.Enforce, "example.com/decommissioned=yes", 1
		n.Inventory.URL, n.Inventory.MinShare, n.Inventory.Timeout = f.url, 0.5, config.Duration(500*time.Millisecond)
	})
	f.await("types", func(map[string]int) bool { return true })
}

// await what is made of stale Nodes.
func (f *fleet) await(what string, holds func(map[string]int) bool) {
	f.t.Helper()
	await.Holds(f.t, patience, what, func(ctx context.Context) error {
		by := map[string]int{}
		all, err := f.r.Collectors(ctx, 0, 0)
		for _, s := range all {
			for reason, n := range s.Counts {
				if n > 0 && s.Collector == "nodes" {
					by[string(reason)] = n
				}
			}
		}
		if err == nil && (len(all) == 0 || !holds(by)) {
			err = fmt.Errorf("%v of %d collectors", by, len(all))
		}
		return err
	})
}

// pass lets time go by, for the controller.
func (f *fleet) pass(d time.Duration) { f.by.Add(int64(d)) }

func (f *fleet) names(ctx context.Context) (list []string, err error) {
	var found struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	err = f.Ask(ctx, http.MethodGet, nodesPath, nil, &found)
	for _, o := range found.Items {
		list = append(list, o.Metadata.Name)
	}
	slices.Sort(list)
	return list, err
}

func (f *fleet) left(want ...string) {
	f.t.Helper()
	slices.Sort(want)
	await.Holds(f.t, patience, "just these Nodes to be left", func(ctx context.Context) error {
		got, err := f.names(ctx)
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			err = errors.New(diff)
		}
		return err
	})
}

// TestNodes: of stale Nodes exactly those go that are marked, are in no inventory, and hold
// no volume; while the inventory is anything but one, none does; nor after a restore, until
// a person has confirmed.
func TestNodes(t *testing.T) {
	f := newFleet(t)
	for i := range 6 {
		f.node(fmt.Sprint("ready-", i), true, true, nil)
	}
	f.node("gone", false, false, nil)
	f.lease("gone", time.Now())
	f.node("gone-without-lease", false, false, nil)
	f.node("gone-out-of-service", false, false, object{"taints": []any{object{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}}})
	f.attach("gone-out-of-service")
	f.node("holds-a-volume", false, false, nil)
	f.attach("holds-a-volume")
	f.node("not-marked", false, false, object{"labels": object{"example.com/decommissioned": "no"}})
	f.node("has-a-machine", false, true, nil)
	f.node("renews", false, false, nil)
	f.lease("renews", time.Now())
	all, err := f.names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.setAnswer(func(w http.ResponseWriter) { io.WriteString(w, "<html><body>Sign in</body></html>") })
	f.begin()
	f.pass(73 * time.Hour)
	f.renew("renews")
	document := f.document(f.machines)
	for what, answer := range map[string]func(http.ResponseWriter){
		"HTML":  *f.answer.Load(),
		"500":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError); f.truth(w) },
		"half":  func(w http.ResponseWriter) { io.WriteString(w, document[:len(document)/2]) },
		"slow":  func(w http.ResponseWriter) { time.Sleep(time.Second); f.truth(w) },
		"count": func(w http.ResponseWriter) { io.WriteString(w, strings.Replace(document, `"count":7`, `"count":9`, 1)) },
	} {
		f.setAnswer(answer)
		asked := f.asked.Load()
		f.pass(nodes.AskAgain)
		f.await(what+" to be asked for", func(by map[string]int) bool { return f.asked.Load() > asked && by[string(nodes.InventoryUnknown)] == 4 })
	}
	for what, machines := range map[gc.Reason][]string{nodes.InventoryEmpty: nil, nodes.InventoryPartial: f.machines[1:]} {
		f.setAnswer(func(w http.ResponseWriter) { io.WriteString(w, f.document(machines)) })
		f.pass(nodes.AskAgain)
		f.await(string(what), func(by map[string]int) bool { return by[string(what)] == 4 })
	}
	f.left(all...)
	from, err := f.ReadAudit(0, func(peers.AuditEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	f.setAnswer(f.truth)
	f.pass(nodes.AskAgain)
	kept := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return strings.HasPrefix(name, "gone") })
	f.left(kept...)
	f.await("what is left to be explained", func(by map[string]int) bool {
		return cmp.Equal(by, map[string]int{string(nodes.NotMarked): 1, string(nodes.InInventory): 1, string(nodes.VolumesAttached): 1})
	})
	requests := map[string]int{}
	if _, err := f.ReadAudit(from, func(e peers.AuditEvent) {
		if strings.HasSuffix(e.User.Username, ":ebb-controller") && (e.ObjectRef.Resource == "nodes" || e.ObjectRef.Namespace == "kube-node-lease") && e.Verb != "watch" && e.Verb != "list" {
			requests[e.Verb+" "+e.ObjectRef.Resource]++
		}
	}); err != nil {
		t.Fatal(err)
	}
	// The Lease of a Node has no owner here.
	if want := map[string]int{"get leases": 3, "delete nodes": 3}; !cmp.Equal(requests, want) {
		t.Errorf("requests: %v, not %v", requests, want)
	}
	f.restored(kept)
}

// restored has a Node go, and puts etcd back.
func (f *fleet) restored(kept []string) {
	t := f.t
	f.node("gone-again", false, false, nil)
	backup := f.backup(t)
	for range 500 { // what an API server writes at its start must not hide that versions went back
		f.Must(t, http.MethodPost, "/api/v1/namespaces/ebb-system/configmaps", object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"generateName": "x-"}})
	}
	f.node("lost", true, false, nil)
	await.Holds(t, patience, "that Node to be observed", func(ctx context.Context) error {
		x, err := f.r.Explain(ctx, gc.Coordinates{APIVersion: "v1", Kind: "Node", Name: "lost"})
		if err == nil && len(x.Collectors) == 0 {
			err = errors.New("it is not known")
		}
		return err
	})
	f.fixture.restore(t, backup)
	await.Holds(t, patience, "the restore to be noticed", func(context.Context) error {
		if f.r.metric(t, "restore_unconfirmed") != 1 {
			return errors.New("it is not")
		}
		return nil
	})
	kept = append(kept, "gone-again")
	still := func(what string) {
		t.Helper()
		f.r.awaitSynced(t)
		asked := f.asked.Load()
		for range 5 {
			f.pass(20 * time.Hour)
			if _, err := f.r.Types(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
		}
		f.left(kept...)
		if n := f.asked.Load(); n != asked {
			t.Errorf("%s: the inventory was asked for %d times", what, n-asked)
		}
	}
	still("restored")
	f.r.stop()
	f.begin()
	if f.r.metric(t, "restore_unconfirmed") != 1 {
		t.Error("who leads next does not wait")
	}
	still("who leads next")
	if !f.r.ConfirmRestore(t.Context()) {
		t.Error("there is nothing to confirm")
	}
	f.pass(nodes.AskAgain)
	f.left(slices.DeleteFunc(slices.Clone(kept), func(name string) bool { return name == "gone-again" || name == "renews" })...) // it does not any more
}
