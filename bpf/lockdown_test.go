package bpf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// lockdownLevel is "none", "integrity" or "confidentiality"; "" if the kernel has no
// lockdown.
func lockdownLevel(t *testing.T) string {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("securityfs", dir, "securityfs", 0, ""); err != nil {
		return ""
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	levels, err := os.ReadFile(filepath.Join(dir, "lockdown"))
	if err != nil {
		return ""
	}
	_, level, _ := strings.Cut(string(levels), "[")
	level, _, _ = strings.Cut(level, "]")
	return level
}

// TestLockdown: integrity keeps nothing out; confidentiality everything, and that is
// reported. On Debian's kernels:
// testvm --package bpf --run TestLockdown --parameter lockdown=integrity
// With confidentiality a machine ends before its tests, with the same error.
func TestLockdown(t *testing.T) {
	switch level := lockdownLevel(t); level {
	case "integrity":
		p := load(t, Options{})
		tier, _ := p.HeatTier()
		for _, best := range heatCandidates(HeatAuto) {
			why := tierMissing(t, best)
			if why == "" && tier != best {
				t.Errorf("layer heat is known by %s, and %s can be had", tier, best)
			}
			if why == "" {
				break
			}
			t.Logf("no %s, as the kernel is built or for another reason: %s", best, why)
		}
	case "confidentiality":
		p, err := Load(context.Background(), Options{PinDir: pinDir(t)})
		if err == nil {
			p.Close()
		}
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "lockdown: with confidentiality") {
			t.Errorf("%v", err)
		}
	default:
		t.Skipf("SKIPPED: this kernel is not locked down: %q", level)
	}
}

// TestLockdownIsNamed: by what verifiers say of a helper that is withdrawn, and of
// no other.
func TestLockdownIsNamed(t *testing.T) {
	for log, is := range map[string]bool{
		"unknown func bpf_probe_read_kernel#113":                               true, // before Linux 6.12
		"program of this type cannot use helper bpf_probe_read_kernel_str#115": true,
		"unknown func bpf_probe_read#4":                                        true,
		"unknown func bpf_loop#181":                                            false,
		"R1 type=scalar expected=fp in bpf_probe_read_kernel#113":              false,
		"program of this type cannot use helper bpf_get_current_cgroup_id#80":  false,
	} {
		err := classify(fmt.Errorf("load: %w", &ebpf.VerifierError{Cause: unix.EINVAL, Log: []string{"0: R1=ctx()", log}}))
		if !errors.Is(err, ErrUnsupported) || strings.Contains(err.Error(), "lockdown") != is {
			t.Errorf("%q: %v", log, err)
		}
	}
}
