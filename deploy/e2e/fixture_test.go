package e2e

import (
	"bytes"
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

type object = peerstest.Object

const patience = 3 * time.Minute

// fixture is an API server that is asked as different users.
type fixture struct{ *peerstest.Cluster }

func start(t testing.TB, c peers.Config) *fixture {
	t.Helper()
	return &fixture{peerstest.Start(t, c)}
}

// answer is an answer of the API server.
type answer struct {
	code     int
	warnings []string
	header   http.Header
	body     []byte
}

func (a answer) refused() bool { return a.code == http.StatusForbidden }

// request sends one with header, and with in, if not nil, as its JSON body.
func request(t testing.TB, c *http.Client, method, url string, header map[string]string, in any) answer {
	t.Helper()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header.Values("Warning"), resp.Header, data}
}

// as sends a request as a user (the admin acts for them; "" is the admin); a PATCH is a JSON
// merge patch.
func (b *fixture) as(t testing.TB, user, method, path string, in any) answer {
	t.Helper()
	header := map[string]string{"Accept": "application/json"}
	switch {
	case in != nil && method == http.MethodPatch:
		header["Content-Type"] = "application/merge-patch+json"
	case in != nil:
		header["Content-Type"] = "application/json"
	}
	if user != "" {
		header["Impersonate-User"] = user
	}
	return request(t, b.Admin, method, b.URL()+path, header, in)
}

var errNotYet = errors.New("not yet")
