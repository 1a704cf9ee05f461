package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// typesEnv is how many custom resources there are in TestAbsence; 500 gives the figures in
// docs/benchmarks-cluster.md.
const typesEnv = "EBB_TEST_CRDS"

// lease is long enough for API servers that start on a busy machine.
var lease = election.Options{Namespace: "ebb-system", Name: "ebb-controller",
	LeaseDuration: 90 * time.Second, RenewDeadline: 80 * time.Second, RetryPeriod: 2 * time.Second}

// briefly is a lease that two requests which hang would cost.
func briefly() election.Options {
	o := lease
	o.LeaseDuration, o.RenewDeadline = 30*time.Second, 20*time.Second
	return o
}

// lead starts a controller as the program does: it holds the Lease.
func (b *fixture) lead(t *testing.T, kubeconfig string, o election.Options) *running {
	t.Helper()
	return b.startBy(t, kubeconfig, nil, func(ctx context.Context, r *running, rc *rest.Config, client *metadata.Client) error {
		return elect(ctx, r, rc, client, o)
	})
}

// awaitRenewals waits until the Lease was renewed so often.
func (b *fixture) awaitRenewals(t *testing.T, n int) {
	t.Helper()
	version := func(ctx context.Context) string {
		m, err := b.Get(ctx, "/apis/coordination.k8s.io/v1/namespaces/ebb-system/leases/ebb-controller")
		if err != nil || m == nil {
			return ""
		}
		return m.ResourceVersion
	}
	for last := version(t.Context()); n > 0; n-- {
		await.Holds(t, patience, "the Lease to be renewed", func(ctx context.Context) error {
			now := version(ctx)
			if now == "" || now == last {
				return fmt.Errorf("it is at %q", now)
			}
			last = now
			return nil
		})
	}
}

// auditOnArrival records each request when it arrives: of a server that is killed, too.
const auditOnArrival = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete, Panic]
rules:
- {level: Metadata, users: ["system:serviceaccount:ebb-system:ebb-controller"]}
- {level: None}
`

func auditArgs(t *testing.T) []string {
	t.Helper()
	policy := filepath.Join(t.TempDir(), "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditOnArrival), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--audit-policy-file=" + policy}
}

// traffic is what the controller has asked for, of all API servers.
type traffic struct {
	lists, streamed, watches, looks, discoveries int
	connections                                  int
	bytes                                        int64
	listed                                       []string
}

func (u traffic) String() string {
	return fmt.Sprintf("%d lists, %d streamed lists, %d watches taken up, %d looks at the Lease, %d for discovery; %d connections, %d KiB",
		u.lists, u.streamed, u.watches, u.looks, u.discoveries, u.connections, u.bytes>>10)
}

// several is a fixture of three API servers on one etcd, behind a proxy.
type several struct {
	*fixture
	p       *proxy
	servers []*peers.Component
	read    int64 // of the audit log
	before  traffic
}

func newSeveral(t *testing.T, crds int) *several {
	t.Helper()
	args := auditArgs(t)
	v := &several{fixture: newFixture(t, peers.Config{Audit: true, APIServerArgs: args})}
	v.servers = []*peers.Component{v.APIServer}
	for range 2 {
		s, err := v.AddAPIServer(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		v.servers = append(v.servers, s)
	}
	v.define(t, "v1")
	v.defineMany(t, crds)
	v.p = newProxy(t, 0)
	v.p.offer(v.urls()...)
	return v
}

func (v *several) urls() (urls []string) {
	for _, s := range v.servers {
		urls = append(urls, s.URL())
	}
	return urls
}

// defineMany makes custom resources that each API server serves.
func (v *several) defineMany(t *testing.T, n int) {
	t.Helper()
	var group sync.WaitGroup
	work := make(chan int)
	for range 8 {
		group.Go(func() {
			for i := range work {
				name := fmt.Sprintf("kind%03ds", i)
				d := widgets("v1")
				d["metadata"] = object{"name": name + ".many.example.com"}
				spec := d["spec"].(object)
				spec["group"] = "many.example.com"
				spec["names"] = object{"plural": name, "singular": fmt.Sprintf("kind%03d", i), "kind": fmt.Sprintf("Kind%03d", i), "listKind": fmt.Sprintf("Kind%03dList", i)}
				if err := v.Ask(t.Context(), http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", d, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	group.Wait()
	// An API server begins to remember a custom resource when it is first asked for it.
	for _, s := range v.servers {
		paths := []string{"example.com/v1/widgets"}
		for i := range n {
			paths = append(paths, fmt.Sprintf("many.example.com/v1/kind%03ds", i))
		}
		for _, path := range paths {
			await.Holds(t, patience, "custom resources to be served", func(ctx context.Context) error {
				return peers.Request(ctx, v.Admin, http.MethodGet, s.URL()+"/apis/"+path, nil, nil)
			})
		}
	}
}

// since is what was asked for since the last reset.
func (v *several) since(t *testing.T) (u traffic) {
	t.Helper()
	_, err := v.ReadAudit(v.read, func(e peers.AuditEvent) {
		lease := e.ObjectRef.Resource == "leases" && e.ObjectRef.Namespace == "ebb-system"
		switch {
		case lease && e.Verb == "list":
			u.looks++
		case lease:
		case e.RequestURI == "/apis", e.RequestURI == "/api", e.RequestURI == "/apis/apiregistration.k8s.io/v1/apiservices":
			u.discoveries++
		case e.Verb == "list":
			u.lists++
			u.listed = append(u.listed, e.RequestURI)
		case e.Verb == "watch" && strings.Contains(e.RequestURI, "sendInitialEvents=true"):
			u.streamed++
			u.listed = append(u.listed, e.RequestURI)
		case e.Verb == "watch":
			u.watches++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	u.connections, u.bytes = v.p.counts()
	u.connections -= v.before.connections
	u.bytes -= v.before.bytes
	return u
}

func (v *several) reset(t *testing.T) {
	t.Helper()
	var err error
	if v.read, err = v.ReadAudit(v.read, func(peers.AuditEvent) {}); err != nil {
		t.Fatal(err)
	}
	v.before.connections, v.before.bytes = v.p.counts()
}

// awaitFollowed waits until so many types were taken up or listed since the reset.
func (v *several) awaitFollowed(t *testing.T, types int) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for u := v.since(t); u.watches+u.streamed < types; u = v.since(t) {
		if time.Now().After(deadline) {
			t.Fatalf("wait for %d types to be followed again: %v", types, u)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (r *running) followed(t *testing.T) (n int) {
	t.Helper()
	types, err := r.Types(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range types {
		if s.State == "synced" {
			n++
		}
	}
	return n
}

// What it costs when API servers go: one of three, and all of them.
func TestAbsence(t *testing.T) {
	crds := 10
	if text := os.Getenv(typesEnv); text != "" {
		var err error
		if crds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	v := newSeveral(t, crds)
	r := v.lead(t, v.p.kubeconfig(t, v.fixture), briefly())
	g := v.guard(t)
	types := r.followed(t)
	t.Logf("%d types; the start: %v", types, v.since(t))
	// In this order: an API server that was restarted has forgotten what was before, and
	// answers watches from there with 410.
	t.Run("one of three falls silent", func(t *testing.T) { testOneSilent(t, v, types) })
	t.Run("all are out of reach", func(t *testing.T) { testOutOfReach(t, v, r, types) })
	t.Run("one of three is killed", func(t *testing.T) { testOneKilled(t, v, types) })
	restores := r.metric(t, "etcd_restores_total")
	r.stop()
	r = v.lead(t, v.p.kubeconfig(t, v.fixture), lease)
	t.Run("all are restarted", func(t *testing.T) { testAllRestarted(t, v, r, types) })
	t.Run("all are out of reach, and there is no Lease", func(t *testing.T) { testWithoutLease(t, v, r, types) })
	g.check(t)
	if n := r.metric(t, "etcd_restores_total") + restores; n != 0 {
		t.Errorf("%v restores of etcd are reported", n)
	}
}

// lose prepares the loss of an API server that all connections go to.
func (v *several) lose(t *testing.T, i, types int) (lost *peers.Component) {
	t.Helper()
	lost = v.servers[i]
	v.Via = v.servers[0].URL()
	v.awaitRenewals(t, 2) // where each type is at home is known then
	v.reset(t)
	v.p.only(lost.URL())
	v.awaitFollowed(t, types)
	v.p.offer(v.urls()...)
	v.awaitRenewals(t, 2)
	v.reset(t)
	return lost
}

// check waits until all types are followed again and a cascade works, and judges what
// that has cost.
func (v *several) check(t *testing.T, types, fewest, most int) {
	t.Helper()
	v.awaitFollowed(t, types)
	v.canary(t)
	u := v.since(t)
	t.Logf("%d types: %v", types, u)
	if n := u.lists + u.streamed; n < fewest || n > most || u.connections > 60 {
		t.Errorf("%v, want %d to %d lists: %q", u, fewest, most, u.listed)
	}
}

func testOneKilled(t *testing.T, v *several, types int) {
	lost := v.lose(t, 2, types)
	if err := lost.Kill(); err != nil {
		t.Fatal(err)
	}
	v.p.withdraw(strings.TrimPrefix(lost.URL(), "https://"))
	v.check(t, types, 0, 0)
	if err := lost.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.Via = ""
	v.p.offer(v.urls()...)
}

// The connection stays, and nothing comes any more: only pings notice it, after 45 seconds.
func testOneSilent(t *testing.T, v *several, types int) {
	lost := v.lose(t, 1, types)
	if err := lost.Pause(); err != nil {
		t.Fatal(err)
	}
	v.p.withdraw(strings.TrimPrefix(lost.URL(), "https://"))
	begun := time.Now()
	v.check(t, types, 0, 0)
	t.Logf("followed again after %v", time.Since(begun))
	if err := lost.Resume(); err != nil {
		t.Fatal(err)
	}
	v.Via = ""
	v.p.offer(v.urls()...)
}

// Types that received no event since the last write of the Lease resume.
func testOutOfReach(t *testing.T, v *several, r *running, types int) {
	before := len(r.log.text())
	v.awaitRenewals(t, 2)
	v.p.cut()
	time.Sleep(peerstest.Outage(t, 2500*time.Millisecond)) // the fault itself
	v.reset(t)
	v.p.join()
	v.check(t, types, 0, 4)
	if !strings.Contains(r.log.text()[before:], "the API server was away") {
		t.Error("it was not noticed")
	}
}

// API servers that were restarted have forgotten what was before: a list is all they have.
func testAllRestarted(t *testing.T, v *several, r *running, types int) {
	v.awaitRenewals(t, 2)
	v.p.cut()
	var errs []error
	for _, s := range v.servers {
		errs = append(errs, s.Kill())
	}
	for _, s := range v.servers {
		errs = append(errs, s.Start(t.Context()))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	v.reset(t)
	v.p.join()
	v.check(t, types, 0, types+10)
}

// Without a Lease every type is listed, as at the start.
func testWithoutLease(t *testing.T, v *several, r *running, types int) {
	r.stop()
	r = v.start(t, v.p.kubeconfig(t, v.fixture), nil)
	v.p.cut()
	time.Sleep(peerstest.Outage(t, 2500*time.Millisecond)) // the fault itself
	v.reset(t)
	v.p.join()
	v.check(t, types, types, types+20) // those that asked before the first answer asked in vain
	r.stop()
}

// The Lease shows whether a backup is older than its last write. The write before the
// fault stays the last one for long, so that each case is the one that it names.
func TestRestoredBesideLease(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.define(t, "v1")
	p := newProxy(t, 0, b.URL())
	o := lease
	o.RetryPeriod = 15 * time.Second
	r := b.lead(t, p.kubeconfig(t, b), o)
	g := b.guard(t)
	t.Run("with a backup from after its last write", func(t *testing.T) {
		testOvertaken(t, b, p, r, func() { b.awaitRenewals(t, 1) }, nothing)
	})
	t.Run("with a backup from before", func(t *testing.T) {
		testOvertaken(t, b, p, r, nothing, func() { b.awaitRenewals(t, 1) })
	})
	r.awaitSynced(t)
	g.check(t)
}
