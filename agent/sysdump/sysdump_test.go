package sysdump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"github.com/ebb-agent/ebb/agent/sysdump/sysdumptest"
)

var testTime = time.Date(2026, 11, 24, 9, 40, 0, 0, time.UTC)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is an API server with two agents and a controller, and those who are in the pods.
type cluster struct {
	secret string // planted wherever one may stand
	mu     sync.Mutex
	asked  []string
}

const pods = `{"items":[
{"metadata":{"name":"ebb-agent-1","labels":{"app.kubernetes.io/component":"agent"},"managedFields":[{"manager":"SECRET"}],
 "annotations":{"ebb/config":"abc","kubectl.kubernetes.io/last-applied-configuration":"{\"x\":\"SECRET\"}","example.com/anything":"SECRET"}},
 "spec":{"nodeName":"worker-1","containers":[{"name":"agent","image":"ebb:1","args":["--password","SECRET","--token=SECRET","--config=/etc/ebb/agent.yaml"],
  "env":[{"name":"HARMLESS","value":"SECRET"},{"name":"NODE_NAME","valueFrom":{"fieldRef":{"fieldPath":"spec.nodeName"}}}]}],
  "volumes":[{"configMap":{"name":"ebb-agent"}},{"secret":{"secretName":"never-read"}}]},
 "status":{"conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[{"name":"agent","restartCount":2,
  "lastState":{"terminated":{"message":"line\npassword: SECRET\nend"}}}]}},
{"metadata":{"name":"ebb-agent-2","labels":{"app.kubernetes.io/component":"agent"}},
 "spec":{"nodeName":"../../worker 2","containers":[{"name":"agent"}]},"status":{}},
{"metadata":{"name":"ebb-controller-1","labels":{"app.kubernetes.io/component":"controller"}},
 "spec":{"nodeName":"worker-1","containers":[{"name":"controller"}]},"status":{}}]}`

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.asked = append(c.asked, r.Method+" "+r.URL.Path)
	c.mu.Unlock()
	const ns = "/api/v1/namespaces/ebb-system/"
	switch path := r.URL.Path; {
	case path == ns+"pods":
		fmt.Fprint(w, strings.ReplaceAll(pods, "SECRET", c.secret))
	case strings.HasSuffix(path, "/log"):
		if r.URL.Query().Get("previous") == "true" {
			fmt.Fprintf(w, "-----BEGIN EC PRIVATE KEY-----\n%s\n-----END EC PRIVATE KEY-----\n", c.secret)
			return
		}
		fmt.Fprintf(w, `{"msg":"asked","header":"Authorization: Bearer %[1]s"}`+"\nurl=https://u:%[1]s@example.com/ clientSecret=%[1]s\n", c.secret)
	case path == ns+"configmaps/ebb-agent":
		fmt.Fprintf(w, `{"metadata":{"name":"ebb-agent"},"binaryData":{"x":%[1]q},"data":{"agent.yaml":"# %[1]s\nmode: enforce\npods: {tokenFile: /run/t, password: %[1]s}\n","broken":"a: [\ntoken: %[1]s\n","my-password":%[1]q}}`, c.secret)
	case path == ns+"events":
		fmt.Fprintf(w, `{"items":[{"reason":"Failed","message":"pull with password=%s: no"}]}`, c.secret)
	case path == "/version":
		fmt.Fprint(w, `{"gitVersion":"v1.37.0"}`)
	case strings.HasPrefix(path, "/api/v1/nodes/worker-1"):
		fmt.Fprintf(w, `{"metadata":{"name":"worker-1","annotations":{"join":"%s"}}}`, c.secret)
	default:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","message":"no: token=%s \u001b[31m"}`, c.secret)
	}
}

func (c *cluster) Page(_ context.Context, node, path string) ([]byte, error) {
	if node != "worker-1" {
		return nil, errors.New("no answer: Bearer " + c.secret)
	}
	return fmt.Appendf(nil, `{"path":%q,"tokens":[%q]}`, path, c.secret), nil
}

func (c *cluster) Run(_ context.Context, pod, container string, command ...string) ([]byte, error) {
	return fmt.Appendf(nil, "%s %s %q passphrase: %s\n", pod, container, command, c.secret), nil
}

// dump makes an archive, and unpacks it.
func (c *cluster) dump(t sysdumptest.T, o Options) (Summary, map[string]string) {
	server := httptest.NewServer(c)
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	o.Config, o.Namespace, o.Remote, o.Progress = &rest.Config{Host: server.URL, Transport: transport}, "ebb-system", c, func(string) {}
	var out bytes.Buffer
	s, err := Write(context.Background(), o, &out)
	if err != nil {
		t.Fatal(err)
	}
	return s, sysdumptest.Unpack(t, &out)
}

func TestDump(t *testing.T) {
	c := &cluster{secret: "hunter2"}
	s, files := c.dump(t, Options{MaxNodes: 20, LogLines: 100, Version: "1.2.3"})
	if s.Nodes != 2 || s.Of != 2 || s.Errors == 0 || s.Files != len(files)-1 {
		t.Errorf("%+v, %d files", s, len(files))
	}
	for name, want := range map[string]string{
		"CONTENTS.txt":                                                 "3 × value of a secret's key",
		"errors.txt":                                                   "leases.yaml: the API server says: no: token=[redacted]",
		"versions.yaml":                                                "gitVersion: v1.37.0",
		"pods/ebb-agent-1.yaml":                                        "ebb/config: abc",
		"events.yaml":                                                  "pull with password=[redacted] no",
		"configmaps/ebb-agent.yaml":                                    "tokenFile: /run/t",
		"nodes/worker-1/node.yaml":                                     "name: worker-1",
		"nodes/worker-1/ebb-agent-1-agent.log":                         "Authorization: [redacted]",
		"nodes/worker-1/ebb-agent-1-agent-previous.log":                "[redacted]",
		"nodes/worker-1/status.json":                                   `"path":"/status"`,
		"nodes/worker-1/history.json":                                  `"path":"/history?limit=1000"`,
		"nodes/worker-1/metrics.txt":                                   "/metrics",
		"nodes/_.._worker_2/ebb-agent-2-agent.log":                     "msg",
		"controllers/ebb-controller-1/decisions.txt":                   `["/usr/bin/ebb" "control" "decisions"]`,
		"controllers/ebb-controller-1/ready.txt":                       `ebb-controller-1 controller`,
		"controllers/ebb-controller-1/ebb-controller-1-controller.log": "msg",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s does not say %q:\n%s", name, want, files[name])
		}
		if name != "CONTENTS.txt" && !strings.Contains(files["CONTENTS.txt"], name) {
			t.Errorf("CONTENTS.txt does not list %s", name)
		}
	}
	if strings.Contains(files["errors.txt"], "\x1b") {
		t.Errorf("%q", files["errors.txt"])
	}
	for _, asked := range c.asked {
		if strings.Contains(asked, "secret") || !strings.HasPrefix(asked, "GET ") {
			t.Errorf("it asked %s", asked)
		}
	}
}

// TestNoSecretSurvives: whatever was planted, and wherever, is in no file, and in no name.
func TestNoSecretSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{secret: "Zq" + rapid.StringMatching(`[A-Za-z0-9+/._~-]{8,40}`).Draw(t, "secret") + "x"}
		_, files := c.dump(t, Options{MaxNodes: 20, LogLines: 100})
		for name, text := range files {
			if strings.Contains(name+text, c.secret) {
				t.Fatalf("%s has it:\n%s", name, text)
			}
		}
	})
}

// TestNodes: those that are not ready come first, those that were named alone.
func TestNodes(t *testing.T) {
	c := &cluster{secret: "x"}
	s, files := c.dump(t, Options{MaxNodes: 1})
	if s.Nodes != 1 || s.Of != 2 || !strings.Contains(files["CONTENTS.txt"], "Of 2 nodes") || files["nodes/_.._worker_2/ebb-agent-2-agent.log"] == "" || files["nodes/worker-1/node.yaml"] != "" {
		t.Errorf("%+v\n%s", s, files["CONTENTS.txt"])
	}
	s, files = c.dump(t, Options{MaxNodes: 1, Nodes: []string{"worker-1", "worker-1", "nowhere", "../namespaces/ebb-system/secrets"}})
	for _, asked := range c.asked {
		if strings.Contains(asked, "secret") {
			t.Errorf("it asked %s", asked)
		}
	}
	if s.Nodes != 3 || files["nodes/worker-1/status.json"] == "" || !strings.Contains(files["errors.txt"], "nodes/nowhere/status.json") {
		t.Errorf("%+v\n%s", s, files["errors.txt"])
	}
}

func TestNoPods(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"items":[]}`) }))
	defer server.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	_, err := Write(t.Context(), Options{Config: &rest.Config{Host: server.URL, Transport: transport}, Namespace: "x", Progress: func(string) {}}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "namespace x") {
		t.Error(err)
	}
}

func TestBounds(t *testing.T) {
	a, err := newArchive(testTime)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	a.text(bytes.Repeat([]byte("a\n"), maxFile/2+1), "long.log")
	a.size = maxTotal
	a.text([]byte("x"), "more.log")
	var out bytes.Buffer
	a.size = maxFile
	if err := a.write(&out, ""); err != nil {
		t.Fatal(err)
	}
	files := sysdumptest.Unpack(t, &out)
	if len(files["long.log"]) != maxFile || !strings.Contains(files["CONTENTS.txt"], "longer than the bound") || !strings.Contains(files["errors.txt"], "more.log: left out") {
		t.Errorf("%d\n%s%s", len(files["long.log"]), files["CONTENTS.txt"], files["errors.txt"])
	}
}

// TestWriteFile: a file is whole or not there, for its owner, and none is overwritten.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x.tar.gz")
	write := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, _ = io.WriteString(w, text) // to a file of the test's own
			return err
		}
	}
	broken := errors.New("broken")
	if err := WriteFile(name, write("half", broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := WriteFile(name, write("whole", nil)); err != nil {
		t.Error(err)
	}
	if err := WriteFile(name, write("other", nil)); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	late := filepath.Join(dir, "late")
	if err := WriteFile(late, func(io.Writer) error { return os.WriteFile(late, []byte("theirs"), 0o600) }); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	data, err := os.ReadFile(name)
	if err != nil || string(data) != "whole" {
		t.Errorf("%q, %v", data, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
}
