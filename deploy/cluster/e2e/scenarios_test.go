package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Listening sockets of this process are seen, with both kinds of addresses, and neither
// connections nor what is closed.
func TestListeners(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	var want []string
	for _, at := range [][2]string{{"tcp", "127.0.0.1:0"}, {"tcp", ":0"}, {"unix", socket}} {
		l, err := net.Listen(at[0], at[1])
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, err := net.Dial(at[0], l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		want = append(want, at[0]+" "+strings.Replace(l.Addr().String(), "[::]", "::", 1))
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, "udp "+u.LocalAddr().String())
	slices.Sort(want)
	got, err := listeners(os.Getpid())
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	u.Close()
	if got, err = listeners(os.Getpid()); err != nil || slices.Contains(got, "udp "+u.LocalAddr().String()) {
		t.Errorf("one that is closed: %q, %v", got, err)
	}
	if pids, err := processes(filepath.Base(os.Args[0])); err != nil || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("this process is not among %v, %v", pids, err)
	}
}

func TestTraces(t *testing.T) {
	t.Parallel()
	before := traces{"files": {"/a"}}
	more := before.more(traces{"files": {"/b", "/a"}, "leases": {"x"}})
	if got, want := strings.Join(more, "|"), "files: /b|leases: x"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Panels are renamed in deploy/grafana; that a run still finds those in drawn is known before.
func TestDrawnPanelsExist(t *testing.T) {
	t.Parallel()
	check := func(file string, titles []string) {
		text, err := os.ReadFile(filepath.Join("../../grafana", strings.TrimPrefix(file, "ebb-")))
		if err != nil {
			t.Fatal(err)
		}
		var shown board
		if err := json.Unmarshal(text, &shown); err != nil {
			t.Fatal(err)
		}
		for _, title := range titles {
			if !slices.ContainsFunc(shown.Panels, func(p panel) bool { return p.Title == title }) {
				t.Errorf("%s has no panel %q", file, title)
			}
		}
	}
	for _, want := range []map[string][]string{drawn, drawnLater} {
		for file, titles := range want {
			check(file, titles)
		}
	}
}

// The scripts run in make e2e-cluster alone; that they are no nonsense is known before.
func TestScripts(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("../*.sh")
	if err != nil || len(scripts) < 5 {
		t.Fatalf("scripts: %q, %v", scripts, err)
	}
	for _, script := range scripts {
		if out, err := exec.Command("bash", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", script, err, out)
		}
	}
	out, err := exec.Command("../provision.sh", "--bin", "/nowhere").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no kubelet there") && !strings.Contains(string(out), "needs root") {
		t.Errorf("without binaries: %v: %s", err, out)
	}
}
