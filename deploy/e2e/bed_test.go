package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// object is any API object, or a part of one.
type object = map[string]any

// bed is an API server that is asked as different users.
type bed struct {
	cp    *peers.ControlPlane
	admin *http.Client
}

func start(t testing.TB, c peers.Config) *bed {
	t.Helper()
	cp := peerstest.StartControlPlane(t, c)
	admin, err := cp.Admin()
	if err != nil {
		t.Fatal(err)
	}
	return &bed{cp, admin}
}

// answer is what the API server said.
type answer struct {
	code     int
	warnings []string
	header   http.Header
	body     []byte
}

func (a answer) refused() bool { return a.code == http.StatusForbidden }

// ask sends a request as a user (the admin acts for them; "" is the admin).
func (b *bed) ask(ctx context.Context, user, method, path, contentType string, body []byte) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, b.cp.URL()+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Accept", "application/json")
	if len(body) > 0 {
		req.Header.Set("Content-Type", contentType)
	}
	if user != "" {
		req.Header.Set("Impersonate-User", user)
	}
	resp, err := b.admin.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Values("Warning"), resp.Header, data}, err
}

// as sends a request with a JSON body; a PATCH is a JSON merge patch.
func (b *bed) as(t testing.TB, user, method, path string, in any) answer {
	t.Helper()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			t.Fatal(err)
		}
	}
	kind := "application/json"
	if method == http.MethodPatch {
		kind = "application/merge-patch+json"
	}
	a, err := b.ask(t.Context(), user, method, path, kind, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// do sends a request as the admin that must succeed.
func (b *bed) do(t testing.TB, method, path string, in any) answer {
	t.Helper()
	a := b.as(t, "", method, path, in)
	if a.code/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, a.code, a.body)
	}
	return a
}

// apply does what "kubectl apply --server-side --validate=strict" does with a
// file below deploy/.
func (b *bed) apply(t testing.TB, file string) {
	t.Helper()
	if err := b.cp.Apply(t.Context(), "../"+file); err != nil {
		t.Fatal(err)
	}
}

var errNotYet = errors.New("not yet")

// await asks until there is no error.
func await(t testing.TB, what string, holds func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("wait for %s: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
