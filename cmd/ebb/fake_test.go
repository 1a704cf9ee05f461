package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/agent/desk/desktest"
	"github.com/ebb-agent/ebb/agent/show/showtest"
)

// cluster is an API server with agents on nodes, all of them one agent.
type cluster struct {
	*showtest.Agent
	kubelet    *desktest.Kubelet
	nodes      []string
	alone      bool   // there is no controller
	halted     string // what the leader noted on its Lease
	forbidden  bool   // what is beside pods and exec
	migrates   bool   // storage versions
	noExec     bool   // exec is forbidden
	refused    atomic.Int64
	kubeconfig string
}

// newCluster makes one whose kubeconfig is the usual one. A node "silent" never answers.
func newCluster(t *testing.T, nodes ...string) *cluster {
	t.Helper()
	c := &cluster{Agent: showtest.NewAgent(), nodes: nodes}
	c.kubelet = desktest.NewKubelet(t, func(h http.Handler) (*httptest.Server, error) { return httptest.NewServer(h), nil })
	c.kubelet.Use(c.Serve(t))
	c.kubeconfig = kubeconfigOf(t, c)
	t.Setenv("KUBECONFIG", c.kubeconfig)
	return c
}

type object = map[string]any

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const pods = "/api/v1/namespaces/ebb-system/pods"
	write := func(code int, o object) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(o)
	}
	switch path := r.URL.Path; {
	case path == pods && strings.Contains(r.URL.RawQuery, "agent"):
		write(http.StatusOK, c.pods())
	case strings.HasPrefix(path, pods+"/") && r.Method != http.MethodPost: // it is older than WebSockets
		w.WriteHeader(http.StatusMethodNotAllowed)
	case strings.HasPrefix(path, pods+"/") && c.noExec:
		c.refused.Add(1)
		write(http.StatusForbidden, object{"kind": "Status", "code": 403, "reason": "Forbidden", "message": `pods "x" is forbidden: User "tester" cannot create resource "pods/exec"`})
	case strings.HasPrefix(path, pods+"/"):
		c.kubelet.Exec(w, r, strings.Split(strings.TrimPrefix(path, pods+"/"), "/")[0], r.URL.Query().Get("container"))
	case path == "/apis/authentication.k8s.io/v1/selfsubjectreviews":
		write(http.StatusCreated, object{"status": object{"userInfo": object{"username": "tester"}}})
	case c.forbidden:
		write(http.StatusForbidden, object{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no\x1b[2J"})
	case path == pods && c.alone:
		write(http.StatusOK, object{"kind": "PodList"})
	case path == pods:
		ready := object{"conditions": []object{{"type": "Ready", "status": "True"}}}
		leader := object{"name": "ebb-controller-7d\x1b[2J"}
		write(http.StatusOK, object{"kind": "PodList", "items": []object{{"metadata": leader, "status": ready}, {"metadata": object{"name": "another"}, "status": object{}}}})
	case path == "/apis/coordination.k8s.io/v1/namespaces/ebb-system/leases":
		// Whatever the release is called, and its Lease.
		write(http.StatusOK, object{"kind": "LeaseList", "items": []object{{"metadata": object{"annotations": object{election.HaltedKey: c.halted, election.ModeKey: "enforce"}}, "spec": object{"holderIdentity": "ebb-controller-7d\x1b[2J_1", "renewTime": showtest.Now}}}})
	case strings.HasSuffix(path, "/proxy/configz"):
		fmt.Fprint(w, `{"kubeletconfig": {"imageGCHighThresholdPercent": 85}}`)
	case path == "/api/v1/namespaces/kube-system/pods":
		write(http.StatusOK, object{"kind": "PodList", "items": []object{{"metadata": object{"name": "kube-controller-manager-cp"}, "status": object{"phase": "Running"},
			"spec": object{"containers": []object{{"command": []string{"kube-controller-manager", "--controllers=*,-garbage-collector-controller"}}}}}}})
	case path == "/apis/storagemigration.k8s.io" && c.migrates:
		write(http.StatusOK, object{"kind": "APIGroup"})
	case strings.HasSuffix(path, "/proxy/stats/summary"):
		fmt.Fprint(w, showtest.Summary)
	default:
		write(http.StatusNotFound, object{"kind": "Status", "code": 404, "reason": "NotFound"})
	}
}

func (c *cluster) pods() object {
	var items []object
	for _, n := range c.nodes {
		pod := n
		if n == "silent" {
			pod = "restarts" // whose agent cannot be reached, see desktest
		}
		items = append(items, object{"metadata": object{"name": pod, "namespace": "ebb-system"}, "spec": object{"nodeName": n, "containers": []object{{"name": "agent"}}},
			"status": object{"conditions": []object{{"type": "Ready", "status": "True"}}}})
	}
	return object{"kind": "PodList", "apiVersion": "v1", "metadata": object{"resourceVersion": "5"}, "items": items}
}

// terminals are the two ends of one.
type terminals struct {
	near *os.File // of the person
	far  *os.File // of the program

	mu   sync.Mutex
	seen bytes.Buffer
}

func newTerminal(t *testing.T, columns, rows uint16) *terminals {
	t.Helper()
	near, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close() })
	n, err := unix.IoctlGetInt(int(near.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(near.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	far, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err == nil {
		err = unix.IoctlSetWinsize(int(far.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	p := &terminals{near: near, far: far}
	go p.watch()
	return p
}

// watch reads until the terminal is closed.
func (p *terminals) watch() {
	data := make([]byte, 4096)
	for {
		n, err := p.near.Read(data)
		p.mu.Lock()
		p.seen.Write(data[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *terminals) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.String()
}

func (p *terminals) typeIn(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.near.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// call runs a command line, with a person at a terminal if there is one.
func call(t *testing.T, at *terminals, line string) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := command(&stdout, &stderr)
	cmd.SetIn(strings.NewReader(""))
	if at != nil {
		cmd.SetIn(at.far)
	}
	err := execute(context.WithoutCancel(t.Context()), cmd, strings.Fields(line))
	if code = codeOf(err); err != nil && code < int(exitFindings) {
		fmt.Fprintln(&stderr, "ebb:", err)
	}
	return stdout.String(), stderr.String(), code
}

// termios is how a terminal is set.
func termios(f *os.File) (unix.Termios, error) {
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return unix.Termios{}, err
	}
	return *t, nil
}
