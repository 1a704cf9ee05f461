package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// setUp runs the script that Vagrantfile runs, too.
func (b *bed) setUp() error {
	b.notes.command("deploy/cluster/provision.sh --bin bin/cluster --images bin/cluster/images.tar")
	if err := b.provision("certificates", "configuration", "services", "cluster"); err != nil {
		return err
	}
	if err := b.provision("--images", filepath.Join(b.o.out, "images.tar"), "images"); err != nil {
		return err
	}
	version, err := b.kubectl("get", "node", nodeName, "--output=jsonpath={.status.nodeInfo.kubeletVersion} {.status.nodeInfo.containerRuntimeVersion}")
	if err != nil {
		return err
	}
	b.notes.ok("node %s is ready: kubelet %s", nodeName, strings.Replace(version, " ", ", ", 1))
	b.notes.ok("the controller manager runs without its garbage collector, the kubelet without its image collection")
	return nil
}

// aPod is one that ends by itself.
const aPod = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: default}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: "%[2]s", imagePullPolicy: Never, command: [sh, -c, "%[3]s"]}
`

// tryNetwork connects to the API server from a pod's own network, by its service.
func (b *bed) tryNetwork() error {
	const ask = "nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null"
	if err := b.apply(fmt.Sprintf(aPod, "network", appImage, ask)); err != nil {
		return err
	}
	err := b.eventually("the pod has ended", func() error {
		phase, err := b.kubectl("get", "pod", "network", "--output=jsonpath={.status.phase}")
		if err == nil && phase != "Succeeded" && phase != "Failed" {
			err = notYet("phase %s", phase)
		}
		return err
	})
	if err != nil {
		return err
	}
	if phase, err := b.kubectl("get", "pod", "network", "--output=jsonpath={.status.phase}"); err != nil || phase != "Succeeded" {
		said, _ := b.kubectl("logs", "network")
		return errors.Join(fmt.Errorf("the pod says %q", said), err)
	}
	b.notes.ok("a pod reached the API server by the service's address")
	_, err = b.kubectl("delete", "pod", "network", "--wait=false")
	return err
}
