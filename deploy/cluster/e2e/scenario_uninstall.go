package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// stuck are an owner that waits, with the finalizer foregroundDeletion, for a dependent
// that somebody else holds: nobody would ever finish it without a collector.
const stuck = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: held
  namespace: default
  finalizers: [e2e.test/held]
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: %s, blockOwnerDeletion: true}]
`

// uninstall is refused as long as something would stay behind.
func (b *fixture) uninstall() {
	const heading = "Remove it"
	b.strand()
	said, err := b.typed(b.printed(installPage, heading)[0])
	if err == nil || !strings.Contains(said, "configmaps default/owner") || !strings.Contains(said, nodeName+": imageGCHighThresholdPercent") {
		fail("it was not refused, or not for both reasons: %v: %s", err, said)
	}
	b.notes.said(said)
	b.ready()
	b.notes.ok("it refuses: an object waits for ebb's finalizer, and the node's image collection is handed over")
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

// manifests does it once more without what a newcomer may not have. This time the kubelet
// gets its images back before the end.
func (b *fixture) manifests() {
	// A kubelet that has pulled an image asks for credentials under each of its other names, too
	// (KEP-2535). This one is to be as it is on a node where the image has only been imported.
	records, err := filepath.Glob("/var/lib/kubelet/image_manager/pulled/*")
	must(err)
	for _, record := range records {
		must(os.Remove(record))
	}
	b.provision("--image-gc", "100", "kubelet") // it keeps its records in memory
	b.follow("README.md", "Install it")
	b.readyIn("observe")
	b.notes.ok("installed from an image that was not pulled")
	b.provision("--image-gc", "85", "kubelet")
	b.eventually("the kubelet to collect images itself", func() error {
		text, err := b.kubectl("get", "--raw", "/api/v1/nodes/"+nodeName+"/proxy/configz")
		if err == nil && !strings.Contains(text, `"imageGCHighThresholdPercent":85`) {
			err = errors.New("it does not yet")
		}
		return err
	})
	b.follow("docs/chart.md", "With the plain manifests")
	b.nothingLeft()
}

// strand makes an object that is being deleted, and cannot go.
func (b *fixture) strand() {
	need(b.kubectl("create", "configmap", "owner"))
	uid := need(b.kubectl("get", "configmap", "owner", "--output=jsonpath={.metadata.uid}"))
	b.apply(fmt.Sprintf(stuck, uid))
	need(b.kubectl("delete", "configmap", "owner", "--cascade=foreground", "--wait=false"))
}

func (b *fixture) nothingLeft() {
	b.eventually("every trace to go", func() error {
		now, err := b.lookAround()
		if err != nil {
			return err
		}
		if more := b.before.more(now); len(more) > 0 {
			return fmt.Errorf("left: %q", more)
		}
		return nil
	})
	for _, program := range []string{"ebb-agent", "ebb-controller", "ebb"} {
		if pids, err := processes(program); err != nil || len(pids) > 0 {
			must(errors.Join(err, fmt.Errorf("%s still runs: %v", program, pids)))
		}
	}
	b.notes.ok("no trace is left: no pins, files, leases, objects or processes that were not there before")
}
