package peers

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-agent/ebb/tools/process"
)

func TestFindBinaries(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(BinariesEnv, dir)
	if got, err := findBinaries(t.Context(), "", io.Discard, "etcd"); err != nil || got != dir {
		t.Errorf("from the environment: %q, %v; want %s", got, err, dir)
	}
	_, err := findBinaries(t.Context(), "", io.Discard, "etcd", "kubelet", "kube-apiserver")
	if err == nil || !strings.Contains(err.Error(), "kubelet") || !strings.Contains(err.Error(), "kube-apiserver") {
		t.Errorf("two that are missing: %v", err)
	}
	if _, err := findBinaries(t.Context(), t.TempDir(), io.Discard, "etcd"); err == nil {
		t.Error("the directory given does not go before the environment")
	}
}

func TestBuildRefusesWhatItDoesNotKnow(t *testing.T) {
	script, err := process.Find("tools/peers/build")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), script, "kubelet", "kube-dns")
	cmd.Env = append(os.Environ(), "EBB_CACHE="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "kube-dns: not one of") {
		t.Errorf("build kube-dns: %v, %q", err, out)
	}
}
