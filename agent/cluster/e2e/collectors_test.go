package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

// collectable is a cluster with something for each collector, and the paths by which it
// is counted.
type collectable struct {
	*fixture
	t         *testing.T
	namespace string
}

const csrsPath = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

func (c *collectable) jobsPath() string { return "/apis/batch/v1/namespaces/" + c.namespace + "/jobs" }
func (c *collectable) podsPath() string { return "/api/v1/namespaces/" + c.namespace + "/pods" }

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// patch the status of an object.
func (c *collectable) status(path string, status object) {
	c.t.Helper()
	var now object
	if err := c.Ask(c.t.Context(), http.MethodGet, path, nil, &now); err != nil {
		c.t.Fatal(err)
	}
	now["status"] = status
	c.Must(c.t, http.MethodPut, path+"/status", now)
}

// job makes a Job that ended a while ago, with a TTL; below 0: without.
func (c *collectable) job(name string, ttl int, ended time.Duration, condition string) {
	spec := object{"template": object{"spec": object{"restartPolicy": "Never", "containers": podSpec["containers"]}}}
	if ttl >= 0 {
		spec["ttlSecondsAfterFinished"] = ttl
	}
	c.Must(c.t, http.MethodPost, c.jobsPath(), object{"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"name": name}, "spec": spec})
	if condition == "" {
		return
	}
	at := stamp(time.Now().Add(-ended))
	status := object{"startTime": stamp(time.Now().Add(-ended - time.Minute)), "conditions": []any{
		object{"type": map[string]string{"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[condition], "status": "True", "lastTransitionTime": at},
		object{"type": condition, "status": "True", "lastTransitionTime": at},
	}}
	if condition == "Complete" {
		status["completionTime"] = at
	}
	c.status(c.jobsPath()+"/"+name, status)
}

func (c *collectable) jobs() {
	c.job("running", 0, 0, "")
	c.job("forever", -1, 48*time.Hour, "Complete")
	c.job("at-once", 0, 0, "Complete")
	c.job("over", 3600, 2*time.Hour, "Complete")
	c.job("failed-over", 3600, 2*time.Hour, "Failed")
	c.job("not-yet", 3600, 0, "Complete")
	c.job("huge", 1<<31-1, 48*time.Hour, "Failed")
}

// pods that ended, and some that did not.
func (c *collectable) pods(ended int) {
	for i := range ended + 3 {
		name := fmt.Sprintf("pod-%02d", i)
		c.Must(c.t, http.MethodPost, c.podsPath(), object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name}, "spec": podSpec})
		status := object{"phase": []string{"Succeeded", "Failed"}[i%2]}
		switch {
		case i >= ended:
			status = object{"phase": "Running"}
		case i%7 == 3:
			status = object{"phase": "Failed", "reason": "Evicted"}
		}
		c.status(c.podsPath()+"/"+name, status)
	}
}

// certificate signed by itself, that is over at a moment.
func certificate(t *testing.T, over time.Time) (request, signed []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	subject := pkix.Name{CommonName: "x"}
	r, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: subject, NotBefore: over.Add(-24 * time.Hour), NotAfter: over}
	s, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: r}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s})
}

// csr makes a request that was answered a while ago; "": it was not.
func (c *collectable) csr(name, condition string, ago time.Duration, issued, over time.Duration) {
	request, signed := certificate(c.t, time.Now().Add(over))
	c.Must(c.t, http.MethodPost, csrsPath, object{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": object{"name": name},
		"spec": object{"request": request, "signerName": "example.com/x", "usages": []any{"client auth"}}})
	if condition == "" {
		return
	}
	var now object
	if err := c.Ask(c.t.Context(), http.MethodGet, csrsPath+"/"+name, nil, &now); err != nil {
		c.t.Fatal(err)
	}
	status := object{"conditions": []any{object{"type": condition, "status": "True", "reason": "Test", "lastUpdateTime": stamp(time.Now().Add(-ago))}}}
	now["status"] = status
	sub := "/approval"
	if condition == "Failed" {
		sub = "/status"
	}
	c.Must(c.t, http.MethodPut, csrsPath+"/"+name+sub, now)
	if issued > 0 {
		status["certificate"] = signed
		c.status(csrsPath+"/"+name, status)
	}
}

func (c *collectable) csrs() {
	const yes = 1
	c.csr("pending", "", 0, 0, 0)
	c.csr("denied-now", "Denied", 0, 0, 0)
	c.csr("denied-old", "Denied", 2*time.Hour, 0, 0)
	c.csr("failed-old", "Failed", 2*time.Hour, 0, 0)
	c.csr("approved-old", "Approved", 2*time.Hour, 0, 0)
	c.csr("approved-older", "Approved", 48*time.Hour, 0, 0)
	c.csr("issued-old", "Approved", 2*time.Hour, yes, time.Hour)
	c.csr("issued-now", "Approved", 0, yes, time.Hour)
	c.csr("expired", "Approved", 0, yes, -time.Hour)
}

// names of what is there, of each type.
func (c *collectable) names(ctx context.Context) (list []string, err error) {
	for _, path := range []string{c.jobsPath(), c.podsPath(), csrsPath} {
		var found struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		if err := c.Ask(ctx, http.MethodGet, path, nil, &found); err != nil {
			return nil, err
		}
		for _, o := range found.Items {
			list = append(list, path[strings.LastIndex(path, "/")+1:]+"/"+o.Metadata.Name)
		}
	}
	slices.Sort(list)
	return list, nil
}

// wanted waits until r has decided on so many, and returns them.
func (c *collectable) wanted(r *running, n int) (list []string) {
	c.t.Helper()
	await.Holds(c.t, patience, fmt.Sprintf("%d decisions", n), func(context.Context) error {
		list = nil
		for _, d := range r.Decisions() {
			if d.Verb == "delete" && d.Collector != "owners" {
				list = append(list, map[string]string{"Job": "jobs/", "Pod": "pods/", "CertificateSigningRequest": "certificatesigningrequests/"}[d.Object.Kind]+d.Object.Name)
			}
		}
		if slices.Sort(list); len(list) < n {
			return fmt.Errorf("%d: %q", len(list), list)
		}
		return nil
	})
	return list
}

// What ebb would delete, and then does with a request each, is what the
// kube-controller-manager's controllers delete of the same cluster.
func TestCollectorsBesidePeer(t *testing.T) {
	const keep, ended = 12, 30
	b := newFixture(t, peers.Config{Audit: true, ControllerManager: true, ControllerManagerArgs: []string{
		"--controllers=garbage-collector-controller,pod-garbage-collector-controller,ttl-after-finished-controller,certificatesigningrequest-cleaner-controller",
		fmt.Sprintf("--terminated-pod-gc-threshold=%d", keep)}})
	if err := b.ControllerManager.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	collecting := func(m config.Mode) func(*config.Config) {
		return func(c *config.Config) {
			c.Collectors.Pods.Mode, c.Collectors.Jobs.Mode, c.Collectors.CSRs.Mode = m, m, m
			c.Collectors.Pods.Keep = keep
		}
	}
	fill := func() *collectable {
		c := &collectable{fixture: b, t: t, namespace: b.scenario(t).namespace}
		b.Must(t, http.MethodPost, "/api/v1/namespaces/"+c.namespace+"/serviceaccounts",
			object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": "default"}})
		c.jobs()
		c.pods(ended)
		c.csrs()
		return c
	}
	csrs := []string{"approved-older", "denied-old", "expired", "failed-old", "issued-old"}
	expected := 3 + ended - keep + len(csrs)
	c := fill()
	r := b.start(t, b.kubeconfig, collecting(config.Observe))
	wanted := c.wanted(r, expected)
	for i, name := range csrs {
		if want := "certificatesigningrequests/" + name; wanted[i] != want {
			t.Errorf("%s is to go, not %s", wanted[i], want)
		}
	}
	all, err := c.names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	kept := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(wanted, name) })
	remain := func(ctx context.Context) error {
		left, err := c.names(ctx)
		if diff := cmp.Diff(kept, left); err == nil && diff != "" {
			err = errors.New(diff)
		}
		return err
	}
	if err := b.ControllerManager.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It looks at requests once an hour, and for the first time before it has listed them:
	// that controller runs alone.
	cleaner, err := b.NewCSRCleaner()
	if err != nil {
		t.Fatal(err)
	}
	if err := cleaner.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Holds(t, patience, "the peer to delete the same", remain)
	for _, peer := range []*peers.Component{cleaner, b.ControllerManager} {
		if err := peer.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// Everything anew, for ebb.
	b.Must(t, http.MethodDelete, csrsPath, nil)
	b.Must(t, http.MethodDelete, c.podsPath(), object{"gracePeriodSeconds": 0})
	c = fill()
	from, err := b.ReadAudit(0, func(peers.AuditEvent) {})
	if err != nil {
		t.Fatal(err)
	}
	b.start(t, b.kubeconfig, collecting(config.Enforce))
	await.Holds(t, patience, "ebb to delete the same", remain)
	requests := map[string]int{}
	if _, err := b.ReadAudit(from, func(e peers.AuditEvent) {
		if strings.HasSuffix(e.User.Username, ":ebb-controller") && (e.Verb == "delete" || e.Verb == "patch" || e.Verb == "get") &&
			slices.Contains([]string{"jobs", "pods", "certificatesigningrequests"}, e.ObjectRef.Resource) {
			requests[e.Verb]++
		}
	}); err != nil {
		t.Fatal(err)
	}
	// A Job goes foreground, whose finalizer is the other collector's part.
	if requests["delete"] != expected || requests["get"] != 0 || requests["patch"] != 3 {
		t.Errorf("requests: %v", requests)
	}
}
