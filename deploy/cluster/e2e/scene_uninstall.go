package main

import (
	"errors"
	"fmt"
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

// uninstall asks first, and is refused as long as something would stay behind.
func (b *bed) uninstall() error {
	if err := b.strand(); err != nil {
		return err
	}
	b.notes.command("kubectl apply --filename deploy/manifests/uninstall/check.yaml")
	said, refused, err := b.check()
	if err != nil {
		return err
	}
	if !refused || !strings.Contains(said, "owner") || !strings.Contains(said, nodeName) {
		return fmt.Errorf("the check did not refuse, or not for both reasons: %s", said)
	}
	b.notes.said(said)
	b.notes.ok("it refuses: an object waits for ebb's finalizer, and the node's image collection is handed over")
	if _, err := b.kubectl("patch", "configmap", "held", "--type=merge", `--patch={"metadata":{"finalizers":null}}`); err != nil {
		return err
	}
	b.notes.command("deploy/cluster/provision.sh --bin bin/cluster --image-gc 85 kubelet")
	if err := b.provision("--image-gc", "85", "kubelet"); err != nil {
		return err
	}
	if err := b.eventually("the check passes", func() error {
		said, refused, err := b.check()
		if err == nil && refused {
			err = notYet("%s", said)
		}
		return err
	}); err != nil {
		return err
	}
	b.notes.ok("once the object is free and the kubelet collects images itself, it agrees")
	return b.leave()
}

// strand makes an object that is being deleted, and cannot go.
func (b *bed) strand() error {
	if _, err := b.kubectl("create", "configmap", "owner"); err != nil {
		return err
	}
	uid, err := b.kubectl("get", "configmap", "owner", "--output=jsonpath={.metadata.uid}")
	if err != nil {
		return err
	}
	if err := b.apply(fmt.Sprintf(stuck, uid)); err != nil {
		return err
	}
	_, err = b.kubectl("delete", "configmap", "owner", "--cascade=foreground", "--wait=false")
	return err
}

const checkManifest = "deploy/manifests/uninstall/check.yaml"

// check runs the Job that says whether ebb may go, and removes it.
func (b *bed) check() (said string, refused bool, err error) {
	return b.job("ebb-uninstall-check", checkManifest)
}

// job applies a manifest, waits for its Job, and deletes what it made. The Job's pod
// goes with it, as long as somebody collects.
func (b *bed) job(name, manifest string) (said string, failed bool, err error) {
	if _, err := b.kubectl("apply", "--filename", manifest); err != nil {
		return "", false, err
	}
	err = b.eventually("the Job "+name+" has ended", func() error {
		text, err := b.kubectl("--namespace", namespace, "get", "job", name, `--output=jsonpath={.status.conditions[?(@.status=="True")].type}`)
		if err != nil {
			return err
		}
		failed = strings.Contains(text, "Failed")
		if !failed && !strings.Contains(text, "Complete") {
			return notYet("conditions %q", text)
		}
		return nil
	})
	if err != nil {
		return "", false, err
	}
	said, err = b.kubectl("--namespace", namespace, "logs", "job/"+name)
	if err != nil {
		return "", false, err
	}
	_, err = b.kubectl("delete", "--filename", manifest)
	return said, failed, err
}

// leave takes ebb away, and looks for traces.
func (b *bed) leave() error {
	manifests := []string{"agent", "controller", "controller-rbac", "controller-flowschema"}
	args := []string{"delete"}
	for _, m := range manifests {
		args = append(args, "--filename", "deploy/manifests/"+m+".yaml")
	}
	b.notes.command("kubectl " + strings.Join(args, " "))
	if _, err := b.kubectl(args...); err != nil {
		return err
	}
	b.notes.command("kubectl apply --filename deploy/manifests/uninstall/unload.yaml")
	said, failed, err := b.job("ebb-uninstall-unload", "deploy/manifests/uninstall/unload.yaml")
	if err != nil {
		return err
	}
	if failed {
		return fmt.Errorf("unloading failed: %s", said)
	}
	b.notes.said(said)
	b.notes.command("kubectl delete namespace ebb-system")
	if _, err := b.kubectl("delete", "namespace", namespace, "--timeout=4m"); err != nil {
		return err
	}
	return b.nothingLeft()
}

func (b *bed) nothingLeft() error {
	err := b.eventually("no trace is left", func() error {
		now, err := b.lookAround()
		if err != nil {
			return err
		}
		if more := b.before.more(now); len(more) > 0 {
			return notYet("left: %q", more)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, program := range []string{"ebb-agent", "ebb-controller", "ebb"} {
		if pids, err := processes(program); err != nil || len(pids) > 0 {
			return errors.Join(err, fmt.Errorf("%s still runs: %v", program, pids))
		}
	}
	b.notes.ok("no trace is left: no pins, files, leases, objects or processes that were not there before")
	return nil
}
