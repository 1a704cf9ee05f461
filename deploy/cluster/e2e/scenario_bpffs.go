package main

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	bpffs = "/sys/fs/bpf"
	// ownPins is the pin directory that docs/chart.md gives for nodes without bpffs.
	ownPins = "/run/ebb/bpf"
)

// withoutBPFFS unmounts the node's bpffs and deletes the agent's pod.
func (b *fixture) withoutBPFFS() {
	b.notes.command("umount " + bpffs)
	// Below the machine's own bpffs is the one mounted together with /sys.
	for isBPFFS(bpffs) {
		must(unix.Unmount(bpffs, unix.MNT_DETACH))
	}
	defer func() { must(unix.Mount("bpf", bpffs, "bpf", unix.MS_NOSUID|unix.MS_NODEV, "mode=700")) }()
	need(b.kubectl("--namespace", namespace, "delete", "pod", "--selector=app.kubernetes.io/component=agent"))
	b.eventually("an Event about the missing bpffs", func() error {
		text, err := b.kubectl("--namespace", namespace, "get", "events", "--field-selector=reason=FailedMount", "--output=jsonpath={.items[*].message}")
		if err == nil && !strings.Contains(text, bpffs+"/ebb") {
			err = fmt.Errorf("FailedMount: %q", text)
		}
		return err
	})
	b.notes.ok("the agent's pod does not start, and an Event names %s/ebb", bpffs)

	b.upgrade("agent.config.kernel.pinDirectory=" + ownPins)
	b.ready()
	if report := need(b.kubectl(reportArgs...)); !strings.Contains(report, "Pinned below "+ownPins+".") || !strings.Contains(report, "lastuse") {
		fail("the report of the kernel programs: %s", report)
	}
	b.notes.ok("with a bpffs of its own the agent has its programs in the kernel")

	b.upgrade("agent.capabilities={BPF,PERFMON,DAC_READ_SEARCH,FOWNER}")
	b.ready()
	b.operate()
	const lacks = `ebb_node_probe_degraded == 1`
	b.eventually("the agent to say what it lacks", func() error {
		found, err := b.query(lacks)
		if err == nil && len(found) == 0 {
			err = errors.New("nothing")
		}
		return err
	})
	if mode := need(b.images()).Store.Mode; mode != "enforce" {
		fail("the agent's mode is %q", mode)
	}
	b.notes.ok("without the right to mount one it works without them, and says so: %s", lacks)
}

var reportArgs = []string{"--namespace", namespace, "exec", "daemonset/ebb-agent", "--", "/usr/bin/ebb-agent", "report", "--config", "/etc/ebb/agent.yaml"}

func isBPFFS(dir string) bool {
	var st unix.Statfs_t
	must(unix.Statfs(dir, &st))
	return st.Type == unix.BPF_FS_MAGIC
}
