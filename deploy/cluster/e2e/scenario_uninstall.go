package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// stuck is a dependent with a finalizer of its own. Its owner waits for it with the finalizer
// foregroundDeletion: without a collector the owner would never be deleted.
const stuck = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: held
  namespace: default
  finalizers: [e2e.test/held]
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s, blockOwnerDeletion: true}]
`

// uninstall checks that uninstalling is refused while something would be left behind, then
// uninstalls.
func (b *fixture) uninstall() {
	const heading = "Remove it"
	b.strand()
	output, err := b.typed(b.printed(installPage, heading)[0])
	if err == nil || !strings.Contains(output, "configmaps default/owner") || !strings.Contains(output, nodeName+": imageGCHighThresholdPercent") {
		fail("it was not refused, or not for both reasons: %v: %s", err, output)
	}
	b.notes.output(output)
	b.ready()
	b.notes.ok("it refuses: an object waits for ebb's finalizer, and the node's image collection is handed over")
	b.keepAfterRefusal()
	need(b.kubectl("patch", "configmap", "held", "--type=merge", `--patch={"metadata":{"finalizers":null}}`))
	b.eventually("the object to go", func() error {
		text, err := b.kubectl("get", "configmap", "owner", "--ignore-not-found", "--output=name")
		if err == nil && text != "" {
			err = errors.New("it is there")
		}
		return err
	})
	b.follow("docs/chart.md", "What is to stay as it is")
	b.follow(installPage, heading)
	b.nothingLeft()
}

// keepAfterRefusal makes a release that could not be uninstalled one that can be upgraded again.
func (b *fixture) keepAfterRefusal() {
	if _, err := b.run(b.o.helm, "upgrade", "ebb", "deploy/chart", "--namespace", namespace, "--reset-then-reuse-values"); err == nil {
		fail("helm upgrades a release that it is about to uninstall: docs/chart.md need not say how")
	}
	var revisions []struct{ Revision int }
	must(json.Unmarshal([]byte(need(b.run(b.o.helm, "history", "ebb", "--namespace", namespace, "--max", "1", "--output", "json"))), &revisions))
	for _, command := range b.printed("docs/chart.md", "Uninstall")[1:3] {
		need(b.typed(strings.Replace(command, "REVISION", strconv.Itoa(revisions[0].Revision), 1)))
		b.progress.ran[command] = true
	}
	b.upgrade()
	b.ready()
	b.notes.ok("rolled back to the revision that is installed, the release can be upgraded again")
}

// byHand is the section of installPage for clusters without a registry.
const byHand = "Without a registry, without Helm"

// manifests installs and uninstalls again, without a registry and without helm. This time the
// kubelet gets image collection back before the end.
func (b *fixture) manifests() {
	// A kubelet that has pulled an image asks for credentials under each of its other names, too
	// (KEP-2535). Here the kubelet must be as on a node where the image was only imported.
	records, err := filepath.Glob("/var/lib/kubelet/image_manager/pulled/*")
	must(err)
	for _, record := range records {
		must(os.Remove(record))
	}
	b.provision("--image-gc", "100", "kubelet") // the kubelet also keeps its pull records in memory
	b.controlled = false
	b.follow(installPage, byHand)
	b.readyIn("observe")
	b.notes.ok("installed from an image that was not pulled")
	b.withoutAgent()
	b.follow("docs/chart.md", "With the plain manifests")
	// The directories that were mounted into the pod remain, too; they are empty.
	b.nothingLeft("files: "+stateDirectory, "files: /run/ebb", "files: "+pinDirectory, "files: /var/lib/kubelet/ebb")
	b.follow(installPage, byHand)
	b.readyIn("observe")
	b.provision("--image-gc", "85", "kubelet")
	b.eventually("the kubelet to collect images itself", func() error {
		text, err := b.kubectl("get", "--raw", "/api/v1/nodes/"+nodeName+"/proxy/configz")
		if err == nil && !strings.Contains(text, `"imageGCHighThresholdPercent":85`) {
			err = errors.New("it does not yet")
		}
		return err
	})
	b.follow("docs/chart.md", "With the plain manifests, every trace")
	b.nothingLeft()
}

// withoutAgent runs the doctor from a debugging pod and from a Job. Its findings depend on this
// machine, but it has to find the kubelet and the runtime.
func (b *fixture) withoutAgent() {
	output := b.follow("docs/doctor.md", "Without an agent")
	for _, has := range []string{"ebb doctor on ", "running, pid", "imageGCHighThresholdPercent"} {
		if n := strings.Count(output, has); n < 2 {
			fail("the two reports say %q %d times", has, n)
		}
	}
	b.notes.ok("the doctor sees the kubelet and the node from a pod of its own")
}

// strand makes an object that is being deleted and cannot finish: see stuck.
func (b *fixture) strand() {
	need(b.kubectl("create", "configmap", "owner"))
	uid := need(b.kubectl("get", "configmap", "owner", "--output=jsonpath={.metadata.uid}"))
	b.apply(fmt.Sprintf(stuck, uid))
	need(b.kubectl("delete", "configmap", "owner", "--cascade=foreground", "--wait=false"))
}

// stateDirectory holds the agent's state, for a later installation.
const stateDirectory = "/var/lib/ebb"

// nothingLeft waits until no traces are left beyond those found before ebb was installed, except
// for those in but.
func (b *fixture) nothingLeft(but ...string) {
	b.eventually("every trace to go", func() error {
		now, err := b.lookAround()
		if err != nil {
			return err
		}
		more := slices.DeleteFunc(b.before.more(now), func(trace string) bool {
			return slices.Contains(but, trace) || len(but) > 0 && strings.HasPrefix(trace, "files: "+stateDirectory+"/")
		})
		if len(more) > 0 {
			return fmt.Errorf("left: %q", more)
		}
		return nil
	})
	for _, program := range []string{"ebb-agent", "ebb-controller", "ebb"} {
		if pids, err := processes(program); err != nil || len(pids) > 0 {
			must(errors.Join(err, fmt.Errorf("%s still runs: %v", program, pids)))
		}
	}
	if len(but) > 0 {
		b.notes.ok("nothing is left but %s: no pins, leases, objects or processes", strings.Join(but, ", "))
		return
	}
	b.notes.ok("no trace is left: no pins, files, leases, objects or processes that were not there before")
}
