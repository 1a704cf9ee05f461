package peers_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// objects is where the tests make theirs.
const objects = "/api/v1/namespaces/default/configmaps"

func configMap(name string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}
}

func admin(t *testing.T, cp *peers.ControlPlane) *http.Client {
	t.Helper()
	client, err := cp.Admin()
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestControlPlane(t *testing.T) {
	cp := peerstest.StartControlPlane(t, peers.Config{Audit: true})
	client := admin(t, cp)

	t.Run("version", func(t *testing.T) {
		var version struct{ Major, Minor, GitVersion string }
		err := peers.Request(t.Context(), client, http.MethodGet, cp.URL()+"/version", nil, &version)
		if err != nil || !strings.HasPrefix(version.GitVersion, "v1.36.") || version.Major != "1" || version.Minor != "36" {
			t.Errorf("version %+v, %v; want 1.36", version, err)
		}
	})
	t.Run("who may what", func(t *testing.T) { testAccess(t, cp) })
	t.Run("restarts", func(t *testing.T) { testRestarts(t, cp) })
	t.Run("pause", func(t *testing.T) { testPause(t, cp) })
	t.Run("kubeconfig", func(t *testing.T) { testKubeconfig(t, cp) })
	// The last: it counts what the others did.
	t.Run("audit", func(t *testing.T) { testAudit(t, cp) })

	dir := cp.Dir()
	if err := errors.Join(cp.Close(), cp.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("directory after Close: %v", err)
	}
}

func testAccess(t *testing.T, cp *peers.ControlPlane) {
	stranger, err := peers.NewAuthority("stranger")
	if err != nil {
		t.Fatal(err)
	}
	with := func(a *peers.Authority, u peers.User) *http.Client {
		creds, err := a.Client(u)
		if err != nil {
			t.Fatal(err)
		}
		creds.CA = cp.Authority().PEM() // the server to trust, whoever asks
		client, err := creds.HTTPClient()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.CloseIdleConnections)
		return client
	}
	nobody := with(cp.Authority(), peers.User{Name: "nobody"})
	nobody.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{}
	for _, tc := range []struct {
		name   string
		client *http.Client
		path   string
		want   int
	}{
		{"admin", admin(t, cp), objects, 200},
		{"user without rights", with(cp.Authority(), peers.User{Name: "jane"}), objects, 403},
		{"user in a group", with(cp.Authority(), peers.User{Name: "jane", Groups: []string{"system:masters"}}), objects, 200},
		{"expired", with(cp.Authority(), peers.User{Name: "jane", NotAfter: time.Now().Add(-time.Hour)}), objects, 401},
		{"of another authority", with(stranger, peers.User{Name: "jane"}), objects, 401},
		{"anonymous", nobody, objects, 401},
		{"anonymous, health", nobody, "/readyz", 200},
	} {
		err := peers.Request(t.Context(), tc.client, http.MethodGet, cp.URL()+tc.path, nil, nil)
		if tc.want == 200 && err != nil || tc.want != 200 && !peers.HasStatus(err, tc.want) {
			t.Errorf("%s: %v, want status %d", tc.name, err, tc.want)
		}
	}
}

// testRestarts ends each component in each way; what was written stays, and
// the address, too.
func testRestarts(t *testing.T, cp *peers.ControlPlane) {
	client, url := admin(t, cp), cp.URL()
	again := func(c *peers.Component) error { return errors.Join(c.Kill(), c.Start(t.Context())) }
	restart := func(c *peers.Component) error { return c.Restart(t.Context()) }
	for i, end := range []func() error{
		func() error { return again(cp.APIServer) },
		func() error { return again(cp.Etcd) },
		func() error { return restart(cp.APIServer) },
		func() error { return restart(cp.Etcd) },
	} {
		name := fmt.Sprintf("restart-%d", i)
		if err := peers.Request(t.Context(), client, http.MethodPost, url+objects, configMap(name), nil); err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		await.Holds(t, time.Minute, "what was written before restart", func(ctx context.Context) error {
			return peers.Request(ctx, client, http.MethodGet, url+objects+"/"+name, nil, nil)
		})
	}
	if cp.URL() != url {
		t.Errorf("URL was %s, is %s", url, cp.URL())
	}
}

func testPause(t *testing.T, cp *peers.ControlPlane) {
	client := admin(t, cp)
	if err := cp.APIServer.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := peers.Request(ctx, client, http.MethodGet, cp.URL()+"/readyz", nil, nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused API server answered: %v", err)
	}
	if err := cp.APIServer.Resume(); err != nil {
		t.Fatal(err)
	}
	await.Holds(t, time.Minute, "an answer after the pause", func(ctx context.Context) error {
		return peers.Request(ctx, client, http.MethodGet, cp.URL()+"/readyz", nil, nil)
	})
}

func testKubeconfig(t *testing.T, cp *peers.ControlPlane) {
	first, err := cp.Kubeconfig("jane", "readers")
	if err != nil {
		t.Fatal(err)
	}
	account := map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "robot"}}
	err = peers.Request(t.Context(), admin(t, cp), http.MethodPost, cp.URL()+"/api/v1/namespaces/default/serviceaccounts", account, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := cp.ServiceAccountKubeconfig(t.Context(), "default", "robot")
	if err != nil {
		t.Fatal(err)
	}
	if name := whoIs(t, cp, second); name != "system:serviceaccount:default:robot" {
		t.Errorf("the service account is %q to the API server", name)
	}
	for _, path := range []string{first, second} {
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), cp.URL()) {
			t.Errorf("kubeconfig %s: %v\n%s", path, err, data)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("kubeconfig %s: mode %v, %v; want 0600", path, info.Mode(), err)
		}
	}
	if first == second {
		t.Errorf("both are %s", first)
	}
}

// whoIs presents the token of a kubeconfig, and returns whom the API server took
// that for.
func whoIs(t *testing.T, cp *peers.ControlPlane, kubeconfig string) string {
	t.Helper()
	data, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Users []struct{ User struct{ Token string } }
	}
	if err := yaml.Unmarshal(data, &config); err != nil || len(config.Users) != 1 {
		t.Fatalf("kubeconfig: %v\n%s", err, data)
	}
	review := map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
		"spec": map[string]any{"token": config.Users[0].User.Token},
	}
	var answer struct {
		Status struct{ User struct{ Username string } }
	}
	err = peers.Request(t.Context(), admin(t, cp), http.MethodPost, cp.URL()+"/apis/authentication.k8s.io/v1/tokenreviews", review, &answer)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.User.Username
}

func testAudit(t *testing.T, cp *peers.ControlPlane) {
	from, err := cp.ReadAudit(0, func(peers.AuditEvent) {})
	if err != nil || from == 0 {
		t.Fatalf("read %d bytes, %v", from, err)
	}
	const name = "audited"
	client := admin(t, cp)
	if err := peers.Request(t.Context(), client, http.MethodPost, cp.URL()+objects, configMap(name), nil); err != nil {
		t.Fatal(err)
	}
	if err := peers.Request(t.Context(), client, http.MethodDelete, cp.URL()+objects+"/"+name, nil, nil); err != nil {
		t.Fatal(err)
	}
	var got []string
	await.Holds(t, time.Minute, "two requests in the audit log", func(context.Context) error {
		if from, err = cp.ReadAudit(from, func(e peers.AuditEvent) {
			if e.User.Username == "peers-admin" && e.ObjectRef.Resource == "configmaps" {
				got = append(got, fmt.Sprint(e.Verb, " ", e.ResponseStatus.Code))
			}
		}); err != nil {
			return err
		}
		if len(got) < 2 {
			return fmt.Errorf("have %v", got)
		}
		return nil
	})
	if want := "[create 201 delete 200]"; fmt.Sprint(got) != want {
		t.Errorf("audited %v, want %s", got, want)
	}
}

// TestControllers has the controller manager make pods of a ReplicaSet, and be
// given arguments.
func TestControllers(t *testing.T) {
	cp := peerstest.StartControlPlane(t, peers.Config{
		ControllerManager: true, Scheduler: true,
		ControllerManagerArgs: []string{"--controllers=*,-garbage-collector-controller"},
	})
	client := admin(t, cp)
	namespace := cp.URL() + "/apis/apps/v1/namespaces/default/replicasets"
	labels := map[string]string{"app": "a"}
	pod := peers.PodSpec{Name: "p", Labels: labels, Image: "peers.test/none:1"}.Manifest()
	set := map[string]any{
		"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": map[string]any{"name": "set"},
		"spec": map[string]any{
			"replicas": 3, "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pod["spec"]},
		},
	}
	if err := peers.Request(t.Context(), client, http.MethodPost, namespace, set, nil); err != nil {
		t.Fatal(err)
	}
	pods := func(ctx context.Context) (n int, err error) {
		var list struct{ Items []json.RawMessage }
		err = peers.Request(ctx, client, http.MethodGet, cp.URL()+"/api/v1/namespaces/default/pods?labelSelector=app%3Da", nil, &list)
		return len(list.Items), err
	}
	await.Holds(t, time.Minute, "three pods", func(ctx context.Context) error {
		n, err := pods(ctx)
		if err == nil && n != 3 {
			err = fmt.Errorf("%d pods", n)
		}
		return err
	})
	for _, c := range []*peers.Component{cp.ControllerManager, cp.Scheduler} {
		if err := errors.Join(c.Kill(), c.Start(t.Context()), c.Restart(t.Context())); err != nil {
			t.Error(err)
		}
		if err := peers.Request(t.Context(), client, http.MethodGet, c.URL()+"/healthz", nil, nil); err != nil {
			t.Error(err)
		}
	}
	// Its collector is off, as configured: an owner is deleted, its dependents stay.
	if err := peers.Request(t.Context(), client, http.MethodDelete, namespace+"/set", nil, nil); err != nil {
		t.Fatal(err)
	}
	err := cp.ControllerManager.Restart(t.Context())
	if n, errPods := pods(t.Context()); err != nil || errPods != nil || n != 3 {
		t.Errorf("after the owner went: %d pods, %v, %v; want 3", n, err, errPods)
	}
	if log, err := os.ReadFile(cp.ControllerManager.LogFile()); err != nil || strings.Contains(string(log), `Started controller" controller="garbage-collector`) {
		t.Errorf("the collector was started, or no log: %v", err)
	}
}

// TestStartFailsCleanly gives an API server what it does not know.
func TestStartFailsCleanly(t *testing.T) {
	peerstest.Need(t)
	base := t.TempDir()
	cp, err := peers.StartControlPlane(t.Context(), peers.Config{
		Name: "broken", Base: base, APIServerArgs: []string{"--no-such-flag"}, Log: t.Output(),
	})
	if err == nil {
		t.Fatal(errors.Join(errors.New("it started"), cp.Close()))
	}
	for _, want := range []string{"kube-apiserver", "exit status 1", "unknown flag: --no-such-flag"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
	if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
