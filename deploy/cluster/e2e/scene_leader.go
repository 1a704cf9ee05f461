package main

import (
	"strings"
	"time"
)

// leader kills the controller that leads, as a crash would, and asks the other one to
// collect.
func (b *bed) leader() error {
	first, err := b.holder("")
	if err != nil {
		return err
	}
	if err := b.deploy("web-leaderless"); err != nil {
		return err
	}
	id, err := b.kubectl("--namespace", namespace, "get", "pod", first, "--output=jsonpath={.status.containerStatuses[0].containerID}")
	if err != nil {
		return err
	}
	_, id, _ = strings.Cut(id, "://")
	b.notes.line("  # kill -KILL the controller that leads, delete a Deployment")
	if _, err := b.run("ctr", "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id); err != nil {
		return err
	}
	begun := time.Now()
	// Else the kubelet starts it again in the same pod, and it can be the next to lead.
	if _, err := b.kubectl("--namespace", namespace, "delete", "pod", first, "--force", "--grace-period=0"); err != nil {
		return err
	}
	if _, err := b.kubectl("delete", "deployment", "web-leaderless", "--wait=false"); err != nil {
		return err
	}
	if _, err := b.holder(first); err != nil {
		return err
	}
	took := time.Since(begun)
	if err := b.vanishes("web-leaderless"); err != nil {
		return err
	}
	b.notes.ok("the other took over after %.0f s (a Lease lasts 15 s), and collected", took.Seconds())
	return b.rollout("deployment/ebb-controller")
}

// holder is the pod that holds the Lease, once it is another than that one.
func (b *bed) holder(than string) (string, error) {
	var pod string
	err := b.eventually("a controller leads", func() error {
		identity, err := b.kubectl("--namespace", namespace, "get", "lease", "ebb-controller", "--output=jsonpath={.spec.holderIdentity}")
		if err != nil {
			return err
		}
		pod, _, _ = strings.Cut(identity, "_")
		if pod == "" || pod == than {
			return notYet("the Lease is %q's", pod)
		}
		return nil
	})
	return pod, err
}
