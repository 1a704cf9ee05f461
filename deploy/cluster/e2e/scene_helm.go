package main

import "fmt"

// helmed does it once more as docs/install.md begins: by helm, whose hooks are the Jobs
// that the scene before applied by hand.
func (b *bed) helmed() error {
	for _, args := range [][]string{
		{"create", "namespace", namespace},
		{"label", "namespace", namespace, "pod-security.kubernetes.io/enforce=privileged"},
	} {
		if _, err := b.kubectl(args...); err != nil {
			return err
		}
	}
	if err := b.helm("install", "ebb", "deploy/chart", "--namespace", namespace); err != nil {
		return err
	}
	if err := b.ready(); err != nil {
		return err
	}
	if err := b.helm("upgrade", "ebb", "deploy/chart", "--namespace", namespace, "--reuse-values",
		"--set", "agent.mode=enforce", "--set", "controller.mode=enforce"); err != nil {
		return err
	}
	if err := b.ready(); err != nil {
		return err
	}
	images, err := b.images()
	if err != nil {
		return err
	}
	if images.Mode != "enforce" {
		return fmt.Errorf("after the upgrade the agent's mode is %q", images.Mode)
	}
	b.notes.ok("installed, and allowed to act")
	if err := b.helm("uninstall", "ebb", "--namespace", namespace, "--timeout", "3m"); err != nil {
		return err
	}
	if _, err := b.kubectl("delete", "namespace", namespace, "--timeout=4m"); err != nil {
		return err
	}
	return b.nothingLeft()
}

func (b *bed) helm(args ...string) error {
	line := "helm"
	for _, arg := range args {
		line += " " + arg
	}
	b.notes.command(line)
	_, err := b.run(b.o.helm, args...)
	return err
}
