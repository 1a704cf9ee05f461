package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0100007F:2506":                         "127.0.0.1:9478",
		"0200FE0A:192B":                         "10.254.0.2:6443",
		"00000000000000000000000000000000:2506": ":::9478",
		"0000000000000000FFFF00000100007F:0050": "127.0.0.1:80", // an IPv4 address in IPv6's clothes
		"nonsense":                              "nonsense",
		"0100007F:":                             "0100007F:",
		"01:0050":                               "01:0050",
	} {
		if got := address(text); got != want {
			t.Errorf("address(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestListener(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ table, line, where, inode string }{
		{"tcp", "0: 0100007F:2506 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1", "tcp 127.0.0.1:9478", "4711"},
		{"tcp", "1: 0100007F:2506 0100007F:9999 01 00000000:00000000 00:00000000 00000000 0 0 4712 1", "", ""}, // a connection
		{"tcp", "sl local_address rem_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode", "", ""},
		{"udp", "sl local_address rem_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode ref", "", ""},
		{"udp", "9: 00000000:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 4713 2", "udp 0.0.0.0:53", "4713"},
		{"unix", "0000: 00000002 00000000 00010000 0001 01 4714 /run/a.sock", "unix /run/a.sock", "4714"},
		{"unix", "0000: 00000003 00000000 00000000 0001 03 4715 /run/a.sock", "", ""}, // a connection
		{"unix", "Num RefCount Protocol Flags Type St Inode Path", "", ""},
	} {
		if where, inode := listener(c.table, strings.Fields(c.line)); where != c.where || inode != c.inode {
			t.Errorf("%s: %q: %q, %q; want %q, %q", c.table, c.line, where, inode, c.where, c.inode)
		}
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
