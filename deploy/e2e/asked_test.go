package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	nodeconfig "github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/runtime/kube"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/buildtest"
	"github.com/ebb-agent/ebb/tools/peers"
)

const nodeName = "tide"

// requests are those that a service account of ebb has made of the API server, by
// the audit log. A watch is in it once it has ended.
func (b *fixture) requests(t *testing.T, account string) (list []peers.AuditEvent) {
	t.Helper()
	if _, err := b.ReadAudit(0, func(e peers.AuditEvent) {
		if e.User.Username == "system:serviceaccount:ebb-system:"+account {
			list = append(list, e)
		}
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// testAgentAsks: the agent, with the chart's configuration and account, asks for what
// its role allows: for nothing else, and for all of it.
func testAgentAsks(t *testing.T, r *release) {
	r.podHere(t, "first")
	account, err := r.ServiceAccountKubeconfig(t.Context(), "ebb-system", "ebb-agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NODE_NAME", nodeName)
	t.Setenv("POD_NAMESPACE", "ebb-system")
	t.Setenv("DAEMONSET_NAME", "ebb-agent") // it looks whether that is there when it stops
	runAgent(t, r, account)
	askOnceMore(t, r, account)

	var asked []peers.AuditEvent
	await.Holds(t, patience, "the watch to be in the audit log", func(context.Context) error {
		asked = r.requests(t, "ebb-agent")
		if !slices.ContainsFunc(asked, func(e peers.AuditEvent) bool { return e.Verb == "watch" }) {
			return errNotYet
		}
		return nil
	})
	got := make(map[string]bool)
	for _, e := range asked {
		got[e.Verb+" "+e.ObjectRef.APIGroup+"/"+e.ObjectRef.Resource] = true
		if e.ResponseStatus.Code == http.StatusForbidden {
			t.Errorf("may not: %s %s", e.Verb, e.RequestURI)
		}
		if e.ObjectRef.Resource != "pods" {
			continue
		}
		if e.Verb != "get" && !strings.Contains(e.RequestURI, "spec.nodeName%3D"+nodeName) {
			t.Errorf("asked for pods of other nodes: %s %s", e.Verb, e.RequestURI)
		}
	}
	want := r.allowed(t, roles+"/ebb-agent")
	maps.Copy(want, r.allowed(t, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/ebb-agent-events"))
	maps.Copy(want, r.allowed(t, "/apis/rbac.authorization.k8s.io/v1/namespaces/ebb-system/roles/ebb-agent"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("its role, and what it asked for (-role +asked):\n%s", diff)
	}
}

func (r *release) podHere(t *testing.T, name string) {
	t.Helper()
	r.Must(t, http.MethodPost, "/api/v1/namespaces/default/pods", object{"metadata": object{"name": name},
		"spec": object{"nodeName": nodeName, "containers": []object{{"name": "c", "image": "i"}}}})
}

// allowed is what a role allows.
func (b *fixture) allowed(t *testing.T, role string) map[string]bool {
	t.Helper()
	var o struct {
		Rules []struct{ APIGroups, Resources, Verbs []string }
	}
	b.Read(t, role, &o)
	list := make(map[string]bool)
	for _, rule := range o.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					list[verb+" "+group+"/"+resource] = true
				}
			}
		}
	}
	return list
}

// runAgent runs the agent until it has asked for its node's pods. There is no runtime for it:
// tests of the agent itself have that.
func runAgent(t *testing.T, r *release, account string) {
	t.Helper()
	var shipped struct{ Data map[string]string }
	r.Read(t, "/api/v1/namespaces/ebb-system/configmaps/ebb-agent", &shipped)
	c, err := nodeconfig.Parse([]byte(shipped.Data["agent.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c.Pods.APIServer.Kubeconfig = account
	c.Runtime.Socket = dir + "/nobody.sock"
	c.State.Directory, c.State.LockFile = dir+"/state", dir+"/agent.lock"
	c.Kernel.Enabled = false
	c.Server.Address, c.Server.AdminSocket = "127.0.0.1:0", ""
	p, err := agentrun.StartUnready(t.Context(), agentrun.Options{Binary: buildtest.Program(t, "cmd/ebb-agent"), Dir: dir, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	await.Holds(t, patience, "the agent to list pods", func(context.Context) error {
		if len(r.requests(t, "ebb-agent")) == 0 {
			return errNotYet
		}
		return nil
	})
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// askOnceMore does the rest of what the agent does: it watches, asks for one pod before
// anything is removed because that pod is gone, and writes Events.
func askOnceMore(t *testing.T, r *release, account string) {
	t.Helper()
	source, err := kube.NewAPIServer(kube.APIServerOptions{NodeName: nodeName, Kubeconfig: account})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx, make(chan struct{}, 1)) }()
	defer func() { cancel(); <-ended }()
	seen := func(n int) func(context.Context) error {
		return func(context.Context) error {
			pods, err := source.Pods(ctx)
			if err == nil && len(pods.List) != n {
				err = errNotYet
			}
			return err
		}
	}
	await.Holds(t, patience, "the pods", seen(1))
	r.podHere(t, "later") // which only a watch reports
	await.Holds(t, patience, "another pod", seen(2))
	gone, err := source.Gone(ctx, "default", "not-there", "00000000-0000-0000-0000-000000000000")
	if err != nil || !gone {
		t.Errorf("a pod that is not there is gone: %v, %v", gone, err)
	}
	e := kube.NodeEvent{Name: "ebb-agent.asked", Reason: "EbbPaused", Message: "asked", Count: 1, First: time.Now(), Last: time.Now()}
	for range 2 {
		if err := source.PostEvent(ctx, e); err != nil {
			t.Error(err)
		}
		e.Again, e.Count = true, e.Count+1
	}
}

// testHooksAsk: nothing that the Jobs asked for was refused.
func testHooksAsk(t *testing.T, r *release) {
	for _, account := range []string{"ebb-uninstall-check", "ebb-uninstall-unload"} {
		verbs := make(map[string]int)
		for _, e := range r.requests(t, account) {
			verbs[e.Verb]++
			if e.ResponseStatus.Code == http.StatusForbidden {
				t.Errorf("%s may not: %s %s", account, e.Verb, e.RequestURI)
			}
		}
		if len(verbs) == 0 {
			t.Errorf("%s asked for nothing", account)
		}
		t.Logf("%s: %s", account, fmt.Sprint(verbs))
	}
}
