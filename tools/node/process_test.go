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
