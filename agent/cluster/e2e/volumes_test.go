package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ebb-agent/ebb/agent/cluster"
	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/volumes"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/peers"
)

func storageFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixture(t, peers.Config{ControllerManager: true, ControllerManagerArgs: []string{
		"--controllers=persistentvolume-binder-controller,persistentvolume-protection-controller"}})
}

// Volumes in all states, at the real API server and the real binder: those are deleted that
// should be, their data with them, and nothing else.
func TestVolumes(t *testing.T) {
	b := storageFixture(t)
	s := b.newStorage(t, nil, nil)
	goes, stays, live := s.fill()
	r := b.start(t, b.kubeconfig, s.serving(config.Observe))
	s.decided(r, "observed", append(slices.DeleteFunc(slices.Collect(maps.Keys(live)), func(n string) bool { return n == "kept-namespace" }), goes...)...)
	for name, want := range stays {
		x, err := r.Explain(t.Context(), gc.Coordinates{APIVersion: "v1", Kind: "PersistentVolume", Name: name})
		if want == volumes.ReclaimFailed && len(x.Collectors) == 1 && x.Collectors[0].Reason == volumes.NotProvisioned {
			want = volumes.NotProvisioned // the binder has not tried by now
		}
		if err != nil || len(x.Collectors) != 1 || x.Collectors[0].Reason != want {
			t.Errorf("%s: %+v, want %s, %v", name, x.Collectors, want, err)
		}
	}
	list, err := r.Collectors(t.Context(), 0, 100)
	list = slices.DeleteFunc(list, func(s cluster.CollectorStatus) bool { return s.Collector != "volumes" })
	reports := map[string]bool{}
	for _, o := range list[0].Reports {
		reports[o.Name] = true
	}
	want := []string{"attachment", "half-a-secret", "not-made", "other-deleted", "other-maker", "reborn", "twin-1", "twin-2"}
	if have := slices.Sorted(maps.Keys(reports)); err != nil || !slices.Equal(have, want) {
		t.Errorf("reported: %q, not %q, %v", have, want, err)
	}
	if calls := append(s.drivers[openDriver].Calls(), s.drivers[lockDriver].Calls()...); len(calls) > 0 {
		t.Errorf("drivers are called in observe: %q", calls)
	}
	r.stop()
	all, err := s.left(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r = b.start(t, b.kubeconfig, s.serving(config.Enforce))
	s.decided(r, "done", goes...)
	for name, why := range live {
		if why != "" {
			s.decided(r, string(why), name)
		}
	}
	kept := slices.DeleteFunc(all, func(n string) bool { return slices.Contains(goes, n) })
	await.Holds(t, patience, "what goes to be gone", func(ctx context.Context) error {
		left, err := s.left(ctx)
		if err == nil && !slices.Equal(left, kept) {
			err = fmt.Errorf("left: %q, not %q", left, kept)
		}
		return err
	})
	for name, id := range s.ids {
		there := s.drivers[openDriver].Has(id) || s.drivers[lockDriver].Has(id)
		if there == slices.Contains(goes, name) {
			t.Errorf("the data of %s is there: %v", name, there)
		}
	}
	// Four of one driver; of the other the right secret, and none, which it refuses.
	for driver, n := range map[string]int{openDriver: 4, lockDriver: 2} {
		calls := slices.DeleteFunc(s.drivers[driver].Calls(), func(m string) bool { return m == "GetPluginInfo" || m == "ControllerGetCapabilities" })
		if len(calls) != n || slices.ContainsFunc(calls, func(m string) bool { return m != "DeleteVolume" }) {
			t.Errorf("%s was called %q", driver, calls)
		}
	}
	if text := r.log.text(); strings.Contains(text, token) {
		t.Error("the secret is in the log")
	}
	// What only a person or time could change changes nothing meanwhile.
	b.nextJobGoes(t)
	if left, err := s.left(t.Context()); err != nil || !slices.Equal(left, kept) {
		t.Errorf("left: %q, %v", left, err)
	}
}

// A controller that is killed when the data is gone, and the object is not, ends what it
// began; nothing else goes.
func TestVolumesKilled(t *testing.T) {
	b := storageFixture(t)
	deleted, resume := make(chan struct{}, 10), make(chan struct{})
	s := b.newStorage(t, nil, func(ctx context.Context, method string) error {
		if method == "DeleteVolume" {
			deleted <- struct{}{}
			select {
			case <-resume:
			case <-ctx.Done():
			}
		}
		return nil
	})
	s.make(volume{name: "going"})
	s.make(volume{name: "staying", policy: "Retain"})
	binary := buildtest.Program(t, "cmd/ebb-controller")
	yaml := fmt.Sprintf("%smode: enforce\ncollectors: {volumes: {mode: enforce, drivers: [{name: %s, socket: %s}]}}\n", alone, openDriver, s.sockets[openDriver])
	p := b.launch(t, binary, yaml)
	p.awaitReady("ok\n")
	p.confirm()
	select {
	case <-deleted:
	case <-time.After(time.Minute):
		t.Fatal("nothing is deleted")
	}
	p.kill()
	if s.drivers[openDriver].Has(s.ids["going"]) {
		t.Error("the data is there")
	}
	if m, err := s.Get(t.Context(), pvsPath+"/going"); m == nil || !slices.Contains(m.Finalizers, volumes.Finalizer) || m.DeletionTimestamp != "" {
		t.Fatalf("it is not as it was: %+v, %v", m, err)
	}
	close(resume)
	p = b.launch(t, binary, yaml)
	p.awaitReady("ok\n")
	p.confirm()
	s.AwaitGone(t, pvsPath+"/going")
	if left, err := s.left(t.Context()); err != nil || !slices.Equal(left, []string{"staying"}) || !s.drivers[openDriver].Has(s.ids["staying"]) {
		t.Errorf("left: %q, %v", left, err)
	}
}

// confirm that etcd is what it was, where nobody could know.
func (p *program) confirm() {
	p.t.Helper()
	if _, err := p.ask(p.t.Context(), http.MethodPost, "/control/confirm-restore"); err != nil {
		p.t.Fatal(err)
	}
}

// A driver that answers NotFound, or an error, has nothing deleted; nor has one that is
// dead, that hangs or that is another. The others go on.
func TestVolumesOfBadDrivers(t *testing.T) {
	b := storageFixture(t)
	answers := map[string]error{"not-found": status.Error(codes.NotFound, "never heard of it"), "internal": status.Error(codes.Internal, "oh"), "hangs": nil}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			s := b.newStorage(t, func(ctx context.Context, method string) error {
				if method == "DeleteVolume" && name == "hangs" {
					<-ctx.Done()
				}
				if method == "DeleteVolume" {
					return answer
				}
				return nil
			}, nil)
			s.make(volume{name: "bad-" + name})
			s.Must(t, http.MethodPost, "/api/v1/namespaces/"+s.namespace+"/secrets", object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "deletion"}, "stringData": object{"token": token}})
			s.make(volume{name: "good-" + name, driver: lockDriver, annotations: secretOf(s.namespace, "deletion")})
			r := b.start(t, b.kubeconfig, s.serving(config.Enforce))
			s.AwaitGone(t, pvsPath+"/good-"+name)
			if name != "hangs" {
				s.decided(r, map[string]string{"not-found": "forbidden", "internal": "failed"}[name], "bad-"+name)
			}
			r.stop() // a call that hangs ends with it
			m, err := s.Get(t.Context(), pvsPath+"/bad-"+name)
			if m == nil || err != nil || m.DeletionTimestamp != "" || !slices.Contains(m.Finalizers, volumes.Finalizer) {
				t.Errorf("%+v, %v", m, err)
			}
			s.drop("bad-" + name)
		})
	}
}

// VolumeAttachments and CSINodes of Nodes that are gone are reported, and go if that is
// wanted; the others stay. So do those of a Node whose kubelet renews its Lease, and of one to
// which a Pod is bound.
func TestVolumesLeftByNodes(t *testing.T) {
	b := newFixture(t, peers.Config{})
	s := &storage{fixture: b, t: t}
	const attachments, csiNodes = "/apis/storage.k8s.io/v1/volumeattachments/", "/apis/storage.k8s.io/v1/csinodes/"
	uid := b.Must(t, http.MethodPost, "/api/v1/nodes", object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": "here"}})
	s.attach("a-here", "some", "here")
	s.attach("a-ghost", "some", "ghost")
	s.attach("a-alive", "some", "alive")
	s.attach("a-bound", "some", "bound")
	lease := object{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": object{"name": "alive", "namespace": "kube-node-lease"},
		"spec": object{"holderIdentity": "alive", "leaseDurationSeconds": 3600, "renewTime": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")}}
	b.Must(t, http.MethodPost, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease)
	namespace := b.scenario(t).namespace
	b.Must(t, http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts", object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": "default"}})
	pod := object{"nodeName": "bound"}
	for key, v := range podSpec {
		pod[key] = v
	}
	b.Must(t, http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods", object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "there"}, "spec": pod})
	for name, owners := range map[string][]any{"here": {object{"apiVersion": "v1", "kind": "Node", "name": "here", "uid": uid}}, "ghost": nil} {
		b.Must(t, http.MethodPost, strings.TrimSuffix(csiNodes, "/"), object{"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
			"metadata": object{"name": name, "ownerReferences": owners}, "spec": object{"drivers": []any{object{"name": openDriver, "nodeID": name}}}})
	}
	left := func(want ...string) func(context.Context) error {
		return func(ctx context.Context) (err error) {
			for _, path := range []string{attachments + "a-here", attachments + "a-ghost", attachments + "a-alive", attachments + "a-bound", csiNodes + "here", csiNodes + "ghost"} {
				m, e := b.Get(ctx, path)
				if err = errors.Join(err, e); (m != nil) != slices.Contains(want, path) {
					err = errors.Join(err, fmt.Errorf("%s is there: %v", path, m != nil))
				}
			}
			return err
		}
	}
	collecting := func(wanted bool) func(*config.Config) {
		return func(c *config.Config) {
			c.Collectors.Jobs.Mode = config.Enforce
			v := &c.Collectors.Volumes
			c.Collectors.Pods.MaxShare = 1 // three of four are lost
			v.Mode, v.Quarantine, v.Attachments, v.CSINodes = config.Enforce, config.Duration(time.Second), wanted, wanted
		}
	}
	r := b.start(t, b.kubeconfig, collecting(false))
	await.Holds(t, patience, "it to be reported", func(ctx context.Context) error {
		x, err := r.Explain(ctx, gc.Coordinates{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment", Name: "a-ghost"})
		if err == nil && (len(x.Collectors) != 1 || x.Collectors[0].Reason != volumes.NodeGone || x.Collectors[0].Due != nil) {
			err = fmt.Errorf("%+v", x.Collectors)
		}
		return err
	})
	b.nextJobGoes(t)
	if err := left(attachments+"a-here", attachments+"a-ghost", attachments+"a-alive", attachments+"a-bound", csiNodes+"here", csiNodes+"ghost")(t.Context()); err != nil {
		t.Error(err)
	}
	r.stop()
	r = b.start(t, b.kubeconfig, collecting(true))
	await.Holds(t, patience, "what a Node has left to go", left(attachments+"a-here", attachments+"a-alive", attachments+"a-bound", csiNodes+"here"))
	before := r.metric(t, "reads_total") // the rest is about the Node to which a Pod is bound
	await.Holds(t, patience, "that Node to be asked for again", func(context.Context) error {
		if n := r.metric(t, "reads_total") - before; n < 6 {
			return fmt.Errorf("%v reads", n)
		}
		return nil
	})
	b.nextJobGoes(t)
	if err := left(attachments+"a-here", attachments+"a-alive", attachments+"a-bound", csiNodes+"here")(t.Context()); err != nil {
		t.Error(err)
	}
	b.Must(t, http.MethodDelete, "/api/v1/namespaces/"+namespace+"/pods/there", object{"gracePeriodSeconds": 0})
	await.Holds(t, patience, "what a Node without Pods has left to go", left(attachments+"a-here", attachments+"a-alive", csiNodes+"here"))
}
