package e2e

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/events"
	"github.com/ebb-agent/ebb/runtime/kube"
	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// nodeEvent is what a test looks at of an Event.
type nodeEvent struct {
	InvolvedObject struct{ Kind, Name, UID, Namespace, APIVersion string }
	Type, Reason   string
	Message        string
	Count          int
	Source         struct{ Component, Host string }
}

// nodeEvents are those that "kubectl describe node" asks for as the kubelet's.
func (b *fixture) nodeEvents(t *testing.T) (list []nodeEvent) {
	t.Helper()
	q := url.Values{"fieldSelector": {"involvedObject.kind=Node,involvedObject.name=" + nodeName + ",involvedObject.namespace=,involvedObject.uid=" + nodeName}}
	var o struct{ Items []nodeEvent }
	b.Read(t, "/api/v1/events?"+q.Encode(), &o)
	return o.Items
}

// book is a log that several goroutines may write and read.
type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *book) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *book) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestNodeEvents: with the account and the rights of the manifests, the events of an agent are
// at its Node. Without the right, one log line names it.
func TestNodeEvents(t *testing.T) {
	kubectl := peerstest.Binary(t, "kubectl")
	b := start(t, peers.Config{})
	for _, file := range []string{"00-namespace.yaml", "agent.yaml"} {
		b.ApplyFiles(t, "manifests/"+file)
	}
	b.Must(t, http.MethodPost, "/api/v1/nodes", object{"metadata": object{"name": nodeName}})
	account, err := b.ServiceAccountKubeconfig(t.Context(), "ebb-system", "ebb-agent")
	if err != nil {
		t.Fatal(err)
	}
	api, err := kube.NewAPIServer(kube.APIServerOptions{NodeName: nodeName, Kubeconfig: account})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	running.Go(func() { _ = api.Run(ctx, make(chan struct{}, 1)) }) // the pods' connection is the Events', too
	log := &book{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	recorder := events.New(prometheus.NewRegistry(), events.Options{Poster: api, Conditions: condition.NewSet(logger), Log: logger})
	running.Go(func() { _ = recorder.Run(ctx) })
	defer running.Wait()
	defer cancel()

	const message = "the low threshold of /var/lib/containerd cannot be reached: in_use 12GiB"
	recorder.Record(events.Fact{Reason: events.Hold, Subject: "/var/lib/containerd", Message: message})
	await.Holds(t, patience, "the Event", func(context.Context) error {
		if len(b.nodeEvents(t)) == 0 {
			return errNotYet
		}
		return nil
	})
	want := nodeEvent{Type: "Warning", Reason: "EbbHold", Message: message, Count: 1}
	want.InvolvedObject.Kind, want.InvolvedObject.APIVersion = "Node", "v1"
	want.InvolvedObject.Name, want.InvolvedObject.UID = nodeName, nodeName
	want.Source.Component, want.Source.Host = "ebb-agent", nodeName
	if diff := cmp.Diff([]nodeEvent{want}, b.nodeEvents(t)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	testRepeated(t, b, api)
	testDescribed(t, b, kubectl, message)

	b.Must(t, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings/ebb-agent-events", nil)
	await.Holds(t, patience, "the right to be gone", func(context.Context) error {
		if b.as(t, "system:serviceaccount:ebb-system:ebb-agent", http.MethodPost, "/api/v1/namespaces/default/events", object{}).refused() {
			return nil
		}
		return errNotYet
	})
	for _, reason := range []events.Reason{events.Paused, events.Resumed} {
		recorder.Record(events.Fact{Reason: reason, Message: "who"})
	}
	await.Holds(t, patience, "the refusal in the log", func(context.Context) error {
		if !strings.Contains(log.String(), "allow that identity to create and patch events in the namespace default") {
			return errNotYet
		}
		return nil
	})
	time.Sleep(time.Second) // the other one fails, too
	if text := log.String(); strings.Count(text, "\n") != 1 {
		t.Errorf("the log:\n%s", text)
	}
}

// testRepeated: an Event is brought up to date, and made anew once it has expired.
func testRepeated(t *testing.T, b *fixture, api *kube.APIServer) {
	const path = "/api/v1/namespaces/default/events/ebb-agent.again"
	at := time.Now()
	e := kube.NodeEvent{Name: "ebb-agent.again", Reason: "EbbPaused", Message: "first", Count: 1, First: at, Last: at}
	post := func() (o nodeEvent) {
		t.Helper()
		if err := api.PostEvent(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		b.Read(t, path, &o)
		return o
	}
	post()
	e.Again, e.Count, e.Message = true, 3, "third"
	if got := post(); got.Count != 3 || got.Message != "third" || got.Type != "Normal" {
		t.Errorf("%+v", got)
	}
	b.Must(t, http.MethodDelete, path, nil)
	e.Count = 4
	if got := post(); got.Count != 4 || got.InvolvedObject.UID != nodeName {
		t.Errorf("after it has expired: %+v", got)
	}
	b.Must(t, http.MethodDelete, path, nil)
}

// testDescribed: people see it where they look.
func testDescribed(t *testing.T, b *fixture, kubectl, message string) {
	admin, err := b.Kubeconfig("admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", admin, "describe", "node", nodeName).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, shown, _ := strings.Cut(string(out), "\nEvents:")
	for _, word := range []string{"Warning", "EbbHold", "ebb-agent", message} {
		if !strings.Contains(shown, word) {
			t.Errorf("kubectl describe node does not show %q:\n%s", word, shown)
		}
	}
	t.Logf("kubectl describe node:%s", shown)
}
