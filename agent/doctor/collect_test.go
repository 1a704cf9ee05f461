package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/lock"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/node/nodetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listing is all below a directory that a look could change.
func listing(t *testing.T, dirs ...string) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s %s %d %s\n", path, info.Mode(), info.Size(), info.ModTime())
			return nil
		})
		fmt.Fprintf(&b, "%s: %v\n", dir, err)
	}
	return b.String()
}

// TestLookAtThisMachine looks at a real containerd and this kernel, as root, and
// changes nothing.
func TestLookAtThisMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a throwaway node and the kernel's programs")
	}
	for _, flavor := range []node.Flavor{node.Debian, node.V2} {
		t.Run(string(flavor), func(t *testing.T) {
			n := nodetest.Start(t, node.Config{Containerd: flavor, SizeBytes: 256 << 20})
			c := config.Default()
			c.Runtime.Socket = n.Socket()
			c.State.Directory = filepath.Join(t.TempDir(), "not", "there", "yet")
			c.Kernel.PinDirectory = "/sys/fs/bpf/ebb-doctor-test"
			c.Filesystems.Kubelet.Path, c.Filesystems.PodLogs.Path = n.Mount(), "/proc"
			dirs := []string{filepath.Dir(filepath.Dir(filepath.Dir(c.State.Directory))), c.Kernel.PinDirectory}
			before := listing(t, dirs...)
			f := Collect(t.Context(), Options{Config: c})
			if diff := cmp.Diff(before, listing(t, dirs...)); diff != "" {
				t.Errorf("something was changed:\n%s", diff)
			}
			checkRuntime(t, f, flavor)
			checkMachine(t, f, n)
		})
	}
}

func checkRuntime(t *testing.T, f Facts, flavor node.Flavor) {
	t.Helper()
	r := f.Runtime
	if r.Err != nil || r.CRIErr != nil || r.RootsErr != nil || r.SandboxErr != nil || !strings.HasPrefix(r.Version, "containerd ") {
		t.Errorf("runtime: %+v", r)
	}
	if r.Pinned != (flavor == node.V2) || (r.Sandbox != "") != (flavor == node.Debian) {
		t.Errorf("sandbox image: %+v", r)
	}
}

func checkMachine(t *testing.T, f Facts, n *node.Node) {
	t.Helper()
	images := f.disk(DiskImages)
	if images == nil || images.Type != "ext4" || images.Mount != n.Mount() {
		t.Fatalf("disks: %+v", f.Disks)
	}
	for _, name := range []string{DiskContent, DiskContainers, DiskKubelet} {
		if d := f.disk(name); d == nil || d.Dev != images.Dev || d.Figures.CapacityBytes != images.Figures.CapacityBytes {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := f.disk(DiskLogs); d == nil || d.Type != "proc" {
		t.Errorf("logs: %+v", d)
	}
	k := f.Kernel
	if k.Release == "" || k.BTF != nil || k.CapsErr != nil || len(k.Missing) > 0 || k.CgroupV2 != nil || !k.BPFFSKnown {
		t.Errorf("kernel: %+v", k)
	}
	if f.Agent.StateErr != nil || f.Probes.Err != nil || f.Probes.Report == nil {
		t.Errorf("agent %+v, probes %+v", f.Agent, f.Probes)
	}
	if len(f.Probes.Report.Objects) == 0 || !f.Probes.Report.Trial {
		t.Errorf("probes: %+v", f.Probes.Report)
	}
}

// TestRuntimesThatAreNone: what may be behind a socket's path.
func TestRuntimesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, "dead.sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: dead}); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	web := filepath.Join(dir, "web.sock")
	listener, err := net.Listen("unix", web)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer server.Close()
	for socket, want := range map[string]string{
		filepath.Join(dir, "none"): "no such socket", file: "not a socket", dead: "nothing listens", web: "no containerd",
	} {
		f := Facts{Config: config.Default(), Runtime: RuntimeFacts{Socket: socket}}
		if roots := readRuntime(t.Context(), &f); roots != nil || f.Runtime.Err == nil || !strings.Contains(f.Runtime.Err.Error(), want) {
			t.Errorf("%s: %v", socket, f.Runtime.Err)
		}
	}
}

func TestLookAtAgent(t *testing.T) {
	code, body := http.StatusOK, "ok\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	c := config.Default()
	c.State.Directory = t.TempDir()
	c.State.LockFile = filepath.Join(c.State.Directory, "agent.lock")
	c.Server.Address = strings.TrimPrefix(server.URL, "http://")
	if a := readAgent(t.Context(), c); !a.Ready || a.down() || a.StateErr != nil {
		t.Errorf("ready: %+v", a)
	}
	c.Server.Address, c.Server.HealthAddress = "127.0.0.1:1", c.Server.Address // it is asked where no password is
	if a := readAgent(t.Context(), c); !a.Ready || a.Address != c.Server.HealthAddress {
		t.Errorf("ready at the address of health: %+v", a)
	}
	c.Server.Address, c.Server.HealthAddress = c.Server.HealthAddress, ""
	code, body = http.StatusServiceUnavailable, "no runtime\x1b[2J\n"+strings.Repeat("x", 1<<20)
	a := readAgent(t.Context(), c)
	if a.Ready || !a.Answered || len(a.Says) > maxLine {
		t.Errorf("not ready: %.200v", a)
	}
	all := &findings{}
	evaluateAgent(all, &Facts{Agent: a, Config: c})
	for _, check := range all.checks {
		if strings.ContainsAny(check.Found, "\n\x1b") || len([]rune(check.Found)) > maxLine+1 {
			t.Errorf("shown: %.200q", check.Found)
		}
	}
	server.Close()
	if a := readAgent(t.Context(), c); !a.down() {
		t.Errorf("gone: %+v", a)
	}
	l, err := lock.Acquire(t.Context(), c.State.LockFile, 0, lock.Holder{PID: 7, Namespace: "ebb", Pod: "ebb-agent-1"})
	if err != nil {
		t.Fatal(err)
	}
	if a := readAgent(t.Context(), c); a.down() || !strings.Contains(a.Holder, "pod ebb/ebb-agent-1") {
		t.Errorf("silent, but there: %+v", a)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	c.Server.Address = ""
	if a := readAgent(t.Context(), c); a.down() || a.Answered {
		t.Errorf("without an address: %+v", a)
	}
}

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		dir: true, filepath.Join(dir, "a/b"): true, file: false, filepath.Join(file, "b"): false, "/proc/nothing": false,
	} {
		if err := writable(path); (err == nil) != want && os.Geteuid() != 0 || want && err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := writable(file); err == nil {
		t.Error("a file was taken for a directory")
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); err == nil {
		t.Error("the directory was made")
	}
}

func TestLockdown(t *testing.T) {
	for text, want := range map[string]string{
		"none [integrity] confidentiality\n": "integrity", "[none] integrity": "none", "": "", "none": "", "]x[": "", "[": "",
	} {
		if got := chosenOf(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	if lockdown("/nowhere") != "" {
		t.Error("lockdown of nowhere")
	}
}

// apiServer is a kubeconfig for a server that answers each list with this.
func apiServer(t *testing.T, code int, answer any) string {
	t.Helper()
	body, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") != "" {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n" +
		"clusters: [{name: a, cluster: {server: \"" + server.URL + "\"}}]\nusers: [{name: a, user: {}}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestPodsFromAPIServer(t *testing.T) {
	meta := func(name string) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
			"spec": map[string]any{"nodeName": "n1", "containers": []any{map[string]any{"name": "c", "image": "i"}}}, "status": map[string]any{"phase": "Running"}}
	}
	list := map[string]any{"kind": "PodList", "apiVersion": "v1", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{meta("a"), meta("b")}}
	refusal := map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "pods is forbidden: User \"x\" cannot list"}
	c := config.Pods{Source: config.PodsFromAPIServer, APIServer: config.APIServer{Kubeconfig: apiServer(t, 200, list), NodeName: "n1"}}
	if p := readPods(t.Context(), c); p.Err != nil || p.Count != 2 || !strings.Contains(p.From, "n1") {
		t.Errorf("%+v", p)
	}
	c.APIServer.Kubeconfig = apiServer(t, 403, refusal)
	ctx, cancel := context.WithTimeout(t.Context(), answerTime/2) // a refusal is no reason to wait
	defer cancel()
	if p := readPods(ctx, c); p.Err == nil || ctx.Err() != nil || !strings.Contains(p.Err.Error(), "cannot list") {
		t.Errorf("%+v", p)
	}
	c.APIServer.NodeName = ""
	t.Setenv("NODE_NAME", "")
	if p := readPods(t.Context(), c); p.Err == nil || !strings.Contains(p.Err.Error(), "node name") {
		t.Errorf("%+v", p)
	}
	if p := readPods(t.Context(), config.Pods{Source: config.PodsFromNobody}); p.Err != nil || p.From != "" {
		t.Errorf("%+v", p)
	}
}
