package node

import (
	"strings"
	"testing"
)

func TestRunsFor(t *testing.T) {
	const l = layout("/var/tmp/ebb-node/a")
	for _, tc := range []struct {
		argv string
		want bool
	}{
		{"containerd --config /var/tmp/ebb-node/a/config.toml", true},
		{"/usr/bin/containerd --config /var/tmp/ebb-node/a/config.toml", true},
		{"/usr/bin/containerd-shim-runc-v2 -namespace k8s.io -address /var/tmp/ebb-node/a/containerd.sock", true},
		{"runc --root /var/tmp/ebb-node/a/run/runc/k8s.io create x", true},
		{"mkfs.xfs -q -f /var/tmp/ebb-node/a/disk.img", true},

		{"/usr/bin/containerd", false},
		{"containerd --config /etc/containerd/config.toml", false},
		{"containerd --config /var/tmp/ebb-node/ab/config.toml", false},
		{"containerd --config /var/tmp/ebb-node/a", false},
		{"ctr --address /var/tmp/ebb-node/a/containerd.sock images ls", false},
		{"vi /var/tmp/ebb-node/a/config.toml", false},
		{"", false},
	} {
		if got := runsFor(l, strings.Split(tc.argv, " ")); got != tc.want {
			t.Errorf("runsFor(%q) = %t, want %t", tc.argv, got, tc.want)
		}
	}
}

func TestLivesIn(t *testing.T) {
	for _, tc := range []struct {
		lines string
		want  bool
	}{
		{"0::/ebb-node-a\n", true},
		{"0::/ebb-node-a/k8s.io/x\n", true},
		{"9:name=systemd:/\n4:memory:/ebb-node-a/k8s.io/x\n0::/\n", true},
		{"0::/ebb-node-a/k8s.io/colon:in:name\n", true},

		{"0::/\n", false},
		{"0::/ebb-node-ab\n", false},
		{"0::/other/ebb-node-a\n", false},
		{"1:name=x:y:/ebb-node-a\n", false}, // no such line is ever written
		{"nonsense", false},
		{"", false},
	} {
		if got := livesIn("/ebb-node-a", tc.lines); got != tc.want {
			t.Errorf("livesIn(%q) = %t, want %t", tc.lines, got, tc.want)
		}
	}
}

func TestIsZombie(t *testing.T) {
	for stat, want := range map[string]bool{
		"1 (init) S 0 1 1":    false,
		"2 (gone) Z 1 2 2":    true,
		"3 (dead) X 1 2 2":    true,
		"4 (a) Z b) R 1 2 2":  false,
		"5 (what) S) Z 1 2 2": true,
		"":                    true, // went while it was read
		"6 (cut":              true,
		"7 (cut)":             true,
	} {
		if got := isZombie(stat); got != want {
			t.Errorf("isZombie(%q) = %t, want %t", stat, got, want)
		}
	}
}
