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

// cascade deletes a Deployment in each of the three ways. Nobody but ebb-controller
// does it here.
func (b *bed) cascade() error {
	ways := []string{"background", "foreground", "orphan"}
	for _, way := range ways {
		if err := b.deploy("web-" + way); err != nil {
			return err
		}
	}
	for _, way := range ways {
		b.notes.command(fmt.Sprintf("kubectl delete deployment web-%[1]s --cascade=%[1]s", way))
		// kubectl waits until the object itself is gone: with foreground, last of all.
		if _, err := b.kubectl("delete", "deployment", "web-"+way, "--cascade="+way, "--timeout=4m"); err != nil {
			return err
		}
	}
	left, err := b.family("web-foreground", "replicasets,pods")
	if err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("left when web-foreground was gone: %v", left))
	}
	b.notes.ok("foreground: ReplicaSet and pods went first")
	if err := b.vanishes("web-background"); err != nil {
		return err
	}
	b.notes.ok("background: they went after it")
	return b.orphaned("web-orphan")
}

func (b *bed) deploy(name string) error {
	if err := b.apply(fmt.Sprintf(aDeployment, name, appImage)); err != nil {
		return err
	}
	_, err := b.kubectl("rollout", "status", "deployment/"+name, "--timeout=4m")
	return err
}

// orphaned checks what a Deployment that was deleted with --cascade=orphan has left.
func (b *bed) orphaned(name string) error {
	left, err := b.family(name, "replicasets,pods")
	if err != nil {
		return err
	}
	owners, err := b.kubectl("get", "replicasets", "--selector=app="+name, "--output=jsonpath={.items[*].metadata.ownerReferences}")
	if err != nil {
		return err
	}
	if len(left) != 3 || owners != "" {
		return fmt.Errorf("want a ReplicaSet without owners, and two pods; have %v, owners %q", left, owners)
	}
	b.notes.ok("orphan: they stay, without an owner")
	if _, err := b.kubectl("delete", "replicasets", "--selector=app="+name); err != nil {
		return err
	}
	return b.vanishes(name)
}

// family lists what bears an application's label.
func (b *bed) family(name, kinds string) ([]string, error) {
	text, err := b.kubectl("get", kinds, "--selector=app="+name, "--output=name", "--ignore-not-found")
	return strings.Fields(text), err
}

func (b *bed) vanishes(name string) error {
	return b.eventually(name+" is gone", func() error {
		left, err := b.family(name, "replicasets,pods")
		if err == nil && len(left) > 0 {
			err = notYet("%v", left)
		}
		return err
	})
}
