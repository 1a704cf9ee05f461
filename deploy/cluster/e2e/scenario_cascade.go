package main

import (
	"errors"
	"fmt"
	"strings"
)

const aDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 0
      containers:
      - {name: main, image: "%[2]s", imagePullPolicy: Never}
`

// cascade deletes a Deployment in each of the three ways. Only ebb-controller collects
// dependents here.
func (b *fixture) cascade() {
	ways := []string{"background", "foreground", "orphan"}
	for _, way := range ways {
		b.deploy("web-" + way)
	}
	for _, way := range ways {
		b.notes.command(fmt.Sprintf("kubectl delete deployment web-%[1]s --cascade=%[1]s", way))
		// kubectl waits until the object itself is gone: with foreground, that is after
		// its dependents.
		need(b.kubectl("delete", "deployment", "web-"+way, "--cascade="+way, "--timeout=4m"))
	}
	left, err := b.family("web-foreground", "replicasets,pods")
	if err != nil || len(left) > 0 {
		must(errors.Join(err, fmt.Errorf("left when web-foreground was gone: %v", left)))
	}
	b.notes.ok("foreground: ReplicaSet and pods went first")
	b.vanishes("web-background")
	b.notes.ok("background: they went after it")
	b.orphaned("web-orphan")
}

func (b *fixture) deploy(name string) {
	b.apply(fmt.Sprintf(aDeployment, name, appImage))
	need(b.kubectl("rollout", "status", "deployment/"+name, "--timeout=4m"))
}

// orphaned checks the dependents of a Deployment that was deleted with
// --cascade=orphan.
func (b *fixture) orphaned(name string) {
	left := need(b.family(name, "replicasets,pods"))
	owners := need(b.kubectl("get", "replicasets", "--selector=app="+name, "--output=jsonpath={.items[*].metadata.ownerReferences}"))
	if len(left) != 3 || owners != "" {
		fail("want a ReplicaSet without owners, and two pods; have %v, owners %q", left, owners)
	}
	b.notes.ok("orphan: they stay, without an owner")
	need(b.kubectl("delete", "replicasets", "--selector=app="+name))
	b.vanishes(name)
}

// family lists the objects of these kinds that have an application's label.
func (b *fixture) family(name, kinds string) ([]string, error) {
	text, err := b.kubectl("get", kinds, "--selector=app="+name, "--output=name", "--ignore-not-found")
	return strings.Fields(text), err
}

func (b *fixture) vanishes(name string) {
	b.eventually(name+" to go", func() error {
		left, err := b.family(name, "replicasets,jobs,pods,csr")
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%v", left)
		}
		return err
	})
}
