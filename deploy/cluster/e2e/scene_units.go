package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// units has the script write what it starts on a machine with systemd, and systemd
// judge it. There is none here to start it: systemctl and modprobe do nothing.
func (b *bed) units() error {
	stubs := filepath.Join(b.files, "stubs")
	if err := os.MkdirAll(stubs, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"systemctl", "modprobe"} {
		if err := os.WriteFile(filepath.Join(stubs, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			return fmt.Errorf("write stub: %w", err)
		}
	}
	_, err := b.run("env", "PATH="+stubs+":"+os.Getenv("PATH"), "deploy/cluster/provision.sh", "--bin", b.o.binaries,
		"--no-packages", "configuration", "services")
	if err != nil {
		return err
	}
	written, err := filepath.Glob("/etc/systemd/system/*.service")
	if err != nil {
		return err
	}
	var ours []string
	for _, unit := range written {
		if exists(filepath.Join("/etc/kubernetes/services", trimService(unit))) {
			ours = append(ours, unit)
		}
	}
	const fewest = 6
	if len(ours) < fewest {
		return fmt.Errorf("units: %q", ours)
	}
	if said, err := b.run("systemd-analyze", append([]string{"verify", "--man=no", "--recursive-errors=no"}, ours...)...); err != nil || said != "" {
		return fmt.Errorf("systemd says %q: %w", said, err)
	}
	b.notes.ok("systemd takes the %d units that the script writes where there is systemd", len(ours))
	return nil
}

func trimService(unit string) string {
	name := filepath.Base(unit)
	return name[:len(name)-len(filepath.Ext(name))]
}
