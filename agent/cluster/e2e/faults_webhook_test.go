package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math/bits"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/await"
)

// refusals are a webhook's answers to deletions of secrets, by the namespace of the
// secret.
var refusals = []struct {
	name   string
	status object // nil: the answer is nonsense, as from a webhook that is broken
}{
	{"plain", object{}},
	{"forbidden", object{"code": 403, "reason": "Forbidden", "message": "no"}},
	// Not a word of it is the API server's own: taken for "gone", these would be forgotten,
	// and their owner's foreground deletion would end.
	{"not-found", object{"code": 404, "reason": "NotFound", "message": `secrets "DEP" not found`, "details": object{"name": "DEP", "kind": "secrets"}}},
	{"gone", object{"code": 410, "reason": "Gone", "message": "gone", "details": object{"name": "DEP", "kind": "secrets"}}},
	{"conflict", object{"code": 409, "reason": "Conflict", "message": "conflict", "details": object{"name": "DEP", "kind": "secrets"}}},
	{"too-many", object{"code": 429, "reason": "TooManyRequests", "message": "busy", "details": object{"retryAfterSeconds": 60}}},
	{"success", object{"code": 200, "status": "Success", "message": "deleted"}},
	{"broken", nil},
}

// webhook refuses deletions until it lets go.
type webhook struct {
	server *httptest.Server

	mu     sync.Mutex
	open   bool
	status map[string]object // by namespace
	asked  map[string]int    // by namespace
}

func newWebhook(t *testing.T, b *fixture) *webhook {
	t.Helper()
	w := &webhook{status: map[string]object{}, asked: map[string]int{}}
	creds, err := b.Authority().Server("webhook")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(creds.Cert, creds.Key)
	if err != nil {
		t.Fatal(err)
	}
	w.server = httptest.NewUnstartedServer(w)
	w.server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	w.server.StartTLS()
	t.Cleanup(w.server.Close)
	b.Must(t, http.MethodPost, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", object{
		"metadata": object{"name": "refuses"},
		"webhooks": []any{object{
			"name": "refuses.example.com", "sideEffects": "None", "admissionReviewVersions": []any{"v1"}, "failurePolicy": "Fail",
			"clientConfig":      object{"url": w.server.URL, "caBundle": b.Authority().PEM()},
			"namespaceSelector": object{"matchLabels": object{"refuses": "yes"}},
			"rules":             []any{object{"operations": []any{"DELETE"}, "apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"secrets"}}},
		}},
	})
	return w
}

func (w *webhook) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	var review struct {
		Request struct{ UID, Name, Namespace string }
	}
	if err := json.NewDecoder(in.Body).Decode(&review); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	open, status := w.open, w.status[review.Request.Namespace]
	w.asked[review.Request.Namespace]++
	w.mu.Unlock()
	if status == nil && !open {
		http.Error(out, "broken", http.StatusInternalServerError)
		return
	}
	answer, err := json.Marshal(object{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"response": object{"uid": review.Request.UID, "allowed": open, "status": naming(status, review.Request.Name)}})
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	_, _ = out.Write(answer) // the API server's to complain
}

// naming is a status with the name of an object in place of DEP.
func naming(status object, name string) object {
	out := object{}
	for k, v := range status {
		switch v := v.(type) {
		case object:
			out[k] = naming(v, name)
		case string:
			if v == "DEP" {
				out[k] = name
				continue
			}
			out[k] = v
		default:
			out[k] = v
		}
	}
	return out
}

func (w *webhook) letGo() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = true
}

func (w *webhook) askedFor(namespace string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[namespace]
}

// refused are scenarios in which a webhook refuses.
type refused struct {
	*webhook
	scenarios []*scenario
	began     time.Time
}

// refusedEach is how many secrets are refused in each scenario: more than are asked for
// at once.
const refusedEach = 40

// begin cascades that the webhook refuses in part.
func (f *refused) begin(t *testing.T, b *fixture) {
	t.Helper()
	f.began = time.Now()
	for _, kind := range refusals {
		s := b.scenario(t)
		f.mu.Lock()
		f.status[s.namespace] = kind.status
		f.mu.Unlock()
		b.Must(t, http.MethodPatch, "/api/v1/namespaces/"+s.namespace, object{"metadata": object{"labels": object{"refuses": "yes"}}})
		s.make("cm/o", "cm/p", "secret/a < !cm/p", "cm/b < cm/o")
		s.many("secret", "cm/o", refusedEach-1)
		f.scenarios = append(f.scenarios, s)
	}
	// The API server takes a moment to know the webhook.
	s := f.scenarios[0]
	await.Holds(t, patience, "the webhook to refuse", func(ctx context.Context) error {
		s.make("secret/probe")
		if err := b.Ask(ctx, http.MethodDelete, s.path("secret/probe"), nil, nil); err == nil {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	for _, s := range f.scenarios {
		s.remove("cm/p", foreground)
		s.remove("cm/o", background)
	}
}

// goOn shows that the rest goes on at speed while that is so.
func (f *refused) goOn(t *testing.T, b *fixture) {
	t.Helper()
	for i, s := range f.scenarios {
		s.t = t
		await.Holds(t, patience, refusals[i].name+" to have refused each", func(context.Context) error {
			if n := f.askedFor(s.namespace); n < refusedEach {
				return fmt.Errorf("%d were", n)
			}
			return nil
		})
		s.want("-cm/b")
	}
	begun := time.Now()
	s := b.scenario(t)
	s.make("cm/o")
	s.many("widget", "cm/o", 100)
	made := time.Now()
	s.remove("cm/o", background)
	s.awaitLeft("widget", 0, 0)
	t.Logf("made in %v, gone in %v", made.Sub(begun), time.Since(made))
}

// end lets go of what was refused, after some time in which it stayed and was asked
// for seldom.
func (f *refused) end(t *testing.T) {
	t.Helper()
	for i, s := range f.scenarios {
		s.t = t
		s.want("cm/p!", "secret/a=1")
		want := refusedEach
		if i == 0 {
			want++ // the probe
		}
		s.awaitLeft("secret", want, refusedEach)
		n, passed := f.askedFor(s.namespace), time.Since(f.began)
		t.Logf("%s: asked %d times for %d objects within %v", refusals[i].name, n, refusedEach, passed)
		// 250 ms, doubled each time: so many within the time.
		if most := (1 + bits.Len(uint(passed/(250*time.Millisecond)))) * refusedEach; n > most {
			t.Errorf("%s: asked %d times for %d objects", refusals[i].name, n, refusedEach)
		}
	}
	f.letGo()
}

// gone waits for it: some seconds go by before the next attempt.
func (f *refused) gone(t *testing.T) {
	t.Helper()
	for _, s := range f.scenarios {
		s.t = t
		s.want("-cm/p", "-secret/a")
		await.Holds(t, patience, "the rest to go", func(ctx context.Context) error {
			_, owned, err := s.left(ctx, "secret")
			if err == nil && owned > 0 {
				err = fmt.Errorf("%d are there", owned)
			}
			return err
		})
	}
}
