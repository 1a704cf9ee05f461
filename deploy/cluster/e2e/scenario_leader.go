package main

import (
	"fmt"
	"strings"
	"time"
)

// leader kills the leading controller, as a crash would, and checks that the other one
// takes over and collects.
func (b *fixture) leader() {
	first := b.holder("")
	b.deploy("web-leaderless")
	id := need(b.kubectl("--namespace", namespace, "get", "pod", first, "--output=jsonpath={.status.containerStatuses[0].containerID}"))
	_, id, _ = strings.Cut(id, "://")
	b.notes.line("  # kill -KILL the controller that leads, delete a Deployment")
	need(b.run("ctr", "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id))
	begun := time.Now()
	// Otherwise the kubelet restarts it in the same pod, and it can become the next
	// leader.
	need(b.kubectl("--namespace", namespace, "delete", "pod", first, "--force", "--grace-period=0"))
	need(b.kubectl("delete", "deployment", "web-leaderless", "--wait=false"))
	b.holder(first)
	took := time.Since(begun)
	b.vanishes("web-leaderless")
	b.notes.ok("the other took over after %.0f s (a Lease lasts 15 s), and collected", took.Seconds())
	b.rollout("deployment/ebb-controller")
}

// holder waits until a pod other than than holds the Lease, and returns that pod's
// name.
func (b *fixture) holder(than string) (pod string) {
	b.eventually("a controller to lead", func() error {
		identity, err := b.kubectl("--namespace", namespace, "get", "lease", "ebb-controller", "--output=jsonpath={.spec.holderIdentity}")
		if err != nil {
			return err
		}
		pod, _, _ = strings.Cut(identity, "_")
		if pod == "" || pod == than {
			return fmt.Errorf("the Lease is %q's", pod)
		}
		return nil
	})
	return pod
}
