package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/policy/cascade"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
)

func TestFaults(t *testing.T) {
	b := newFixture(t, peers.Config{})
	r := b.start(t, b.kubeconfig, nil)
	t.Run("deletion refused", func(t *testing.T) { testRefused(t, b, r) })
	t.Run("etcd restored", func(t *testing.T) { testRestored(t, b, r) })
}

// An object whose deletion admission refuses stays, is reported, holds up no other object, and
// is retried seldom.
func testRefused(t *testing.T, b *fixture, r *running) {
	const api = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	b.Must(t, http.MethodPost, api+"ies", object{"metadata": object{"name": "keep"}, "spec": object{
		"matchConstraints": object{"resourceRules": []any{object{"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "resources": []string{"secrets"}, "operations": []string{"DELETE"}}}},
		"validations":      []any{object{"expression": "oldObject.metadata.name != 'kept'", "message": "kept on purpose"}}}})
	b.Must(t, http.MethodPost, api+"ybindings", object{"metadata": object{"name": "keep"}, "spec": object{"policyName": "keep", "validationActions": []string{"Deny"}}})
	s := b.scenario(t)
	s.make("secret/kept")
	await.Holds(t, patience, "the policy to be in force", func(ctx context.Context) error {
		err := b.Ask(ctx, http.MethodDelete, s.path("secret/kept")+"?dryRun=All", nil, nil)
		if err == nil {
			return errors.New("it is not")
		}
		return nil
	})
	s.make("cm/o")
	s.own("secret/kept", "cm/o")
	s.many("secret", "cm/o", 20)
	s.remove("cm/o", background)
	s.awaitLeft("secret", 1, 1)
	await.Holds(t, patience, "the refusal in the record", func(context.Context) error {
		for _, d := range r.Decisions() {
			if d.Object.Name == "kept" && d.Result == "forbidden" && strings.Contains(d.Error, "kept on purpose") {
				return nil
			}
		}
		return fmt.Errorf("%+v", r.Decisions()[0])
	})
	x, err := r.Explain(t.Context(), gc.Coordinates{APIVersion: "v1", Kind: "Secret", Namespace: s.namespace, Name: "kept"})
	if err != nil || x.Reason != cascade.KeptRetry || x.Last != gc.Forbidden.String() || x.Retry == nil {
		t.Fatalf("%+v, %v", x, err)
	}
	if wait := time.Until(*x.Retry); wait < 10*time.Second {
		t.Errorf("tried again in %v", wait)
	}
	b.Must(t, http.MethodDelete, api+"ybindings/keep", nil)
}

// A backup brings owners back whose end everybody remembers. Their dependents, as
// they were then, stay.
func testRestored(t *testing.T, b *fixture, r *running) {
	s := b.scenario(t)
	s.make("cm/o", "cm/gone", "cm/a < cm/o", "cm/b < cm/gone + example.com/wait")
	r.awaitSynced(t)
	data := b.EtcdDir()
	backup := filepath.Join(t.TempDir(), "etcd")
	b.down(t)
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	b.up(t)
	s.remove("cm/o", background)
	s.want("-cm/a")
	s.remove("cm/gone", background)
	s.want("cm/b!")
	// Versions go on well beyond those of the backup.
	s.many("secret", "cm/b", 50)
	b.down(t)
	if err := errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(backup))); err != nil {
		t.Fatal(err)
	}
	b.up(t)
	await.Holds(t, patience, "it to be noticed", func(context.Context) error {
		if !strings.Contains(r.log.text(), "etcd was restored") {
			return errors.New("the restore is not logged")
		}
		return nil
	})
	r.awaitSynced(t)
	s.make("cm/late < cm/o", "cm/p", "cm/c < cm/p")
	s.remove("cm/p", background)
	s.want("-cm/c", "cm/o", "cm/a=1", "cm/gone", "cm/b=1", "cm/late=1")
	s.remove("cm/o", background)
	s.want("-cm/a", "-cm/late", "cm/b=1")
}

func (b *fixture) down(t *testing.T) {
	t.Helper()
	// In this order: an API server that loses its etcd first lingers. In good order it
	// would wait for our watches to end.
	if err := errors.Join(b.APIServer.Kill(), b.Etcd.Stop(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func (b *fixture) up(t *testing.T) {
	t.Helper()
	if err := errors.Join(b.Etcd.Start(t.Context()), b.APIServer.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
}
