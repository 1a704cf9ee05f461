package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// setUp provisions the machine with the script that Vagrantfile runs, too, and prepares
// everything else that the pages assume.
func (b *fixture) setUp() {
	b.makeWorkplace()
	b.serveRegistry()
	b.provision("certificates", "configuration", "services", "cluster")
	b.provision("--images", filepath.Join(b.o.out, "images.tar"), "images")
	version := need(b.kubectl("get", "node", nodeName, "--output=jsonpath={.status.nodeInfo.kubeletVersion} {.status.nodeInfo.containerRuntimeVersion}"))
	b.notes.ok("node %s is ready: kubelet %s", nodeName, strings.Replace(version, " ", ", ", 1))
	b.provision("prometheus")
	b.apply(operatorTypes)
	b.notes.ok("the controller manager runs without its collectors, the kubelet without its image collection")
}

// aPod is a Pod that ends by itself.
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

// tryNetwork connects from a pod's network to the API server's Service address.
func (b *fixture) tryNetwork() {
	const ask = "nc -w 5 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null"
	b.apply(fmt.Sprintf(aPod, "network", appImage, ask))
	b.eventually("the pod to end", func() error {
		phase, err := b.kubectl("get", "pod", "network", "--output=jsonpath={.status.phase}")
		if err == nil && phase != "Succeeded" && phase != "Failed" {
			err = fmt.Errorf("phase %s", phase)
		}
		return err
	})
	if phase, err := b.kubectl("get", "pod", "network", "--output=jsonpath={.status.phase}"); err != nil || phase != "Succeeded" {
		output, _ := b.kubectl("logs", "network")
		must(errors.Join(fmt.Errorf("the pod says %q", output), err))
	}
	b.notes.ok("a pod reached the API server by the service's address")
	need(b.kubectl("delete", "pod", "network", "--wait=false"))
}
