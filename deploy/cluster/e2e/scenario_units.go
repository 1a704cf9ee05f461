package main

import (
	"os"
	"path/filepath"
)

// units has provision.sh write its systemd units, and systemd-analyze verify them. No
// systemd runs here to start them: systemctl and modprobe are stubs.
func (b *fixture) units() {
	stubs := filepath.Join(b.files, "stubs")
	must(os.MkdirAll(stubs, 0o755))
	for _, name := range []string{"systemctl", "modprobe"} {
		must(os.WriteFile(filepath.Join(stubs, name), []byte("#!/bin/sh\n"), 0o755))
	}
	need(b.run("env", "PATH="+stubs+":"+os.Getenv("PATH"), "deploy/cluster/provision.sh", "--bin", b.o.binaries,
		"--no-packages", "configuration", "services"))
	written := need(filepath.Glob("/etc/systemd/system/*.service"))
	var ours []string
	for _, unit := range written {
		if exists(filepath.Join("/etc/kubernetes/services", trimService(unit))) {
			ours = append(ours, unit)
		}
	}
	const fewest = 6
	if len(ours) < fewest {
		fail("units: %q", ours)
	}
	if output, err := b.run("systemd-analyze", append([]string{"verify", "--man=no", "--recursive-errors=no"}, ours...)...); err != nil || output != "" {
		fail("systemd-analyze: %q: %w", output, err)
	}
	b.notes.ok("systemd takes the %d units that the script writes where there is systemd", len(ours))
}

func trimService(unit string) string {
	name := filepath.Base(unit)
	return name[:len(name)-len(filepath.Ext(name))]
}
