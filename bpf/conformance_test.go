package bpf_test

import (
	"testing"

	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/bpf/bpftest"
)

func TestConformance(t *testing.T) {
	bpftest.Conformance(t, func() bpftest.Node { return &realNode{} })
}

// realNode is this machine.
type realNode struct{ bpf.SuiteNode }

func (n *realNode) Probes(t *testing.T, layers int, absent ...string) bpftest.Probes {
	t.Helper()
	return n.LoadProbes(t, layers, absent...)
}

func (*realNode) Disk(t *testing.T, fsType string) bpftest.Disk {
	t.Helper()
	return realDisk{bpf.NewSuiteDisk(t, fsType)}
}

type realDisk struct{ *bpf.SuiteDisk }

func (d realDisk) Free(t *testing.T) bpftest.Free {
	t.Helper()
	blocks, reserved, inodes := d.Statfs(t)
	return bpftest.Free{Blocks: blocks, Reserved: reserved, Inodes: inodes}
}
