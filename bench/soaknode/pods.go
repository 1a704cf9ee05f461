package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
)

const (
	podsPath     = "/api/v1/namespaces/default/pods"
	nameLabel    = "io.kubernetes.pod.name"
	podContainer = "main" // the container of each pod
)

// runsPods reports whether pods can be started and ended, as a kubelet could.
func (d *driver) runsPods() bool { return d.cp.APIServer.Running() }

// createPod creates a pod that is bound to the node and needs an image.
func (d *driver) createPod(ctx context.Context, p *pulled, name string, command []string) (uid string, err error) {
	spec := peers.PodSpec{Name: name, NodeName: d.node.Name(), Image: p.Name, Command: command, RestartPolicy: "Never"}
	var made struct{ Metadata struct{ UID string } }
	if err := peers.Request(ctx, d.admin, http.MethodPost, d.cp.URL()+podsPath, spec.Manifest(), &made); err != nil {
		return "", err
	}
	d.oracle.Protect(p.id, name+" wants it", time.Now())
	return made.Metadata.UID, nil
}

func (d *driver) deletePod(ctx context.Context, image, name string) error {
	d.oracle.Release(image, name+" wants it", time.Now())
	return peers.Request(ctx, d.admin, http.MethodDelete, d.cp.URL()+podsPath+"/"+name, map[string]any{"gracePeriodSeconds": 0}, nil)
}

// startPod starts a pod as a kubelet does, or has the kubelet start it: then it returns no Pod. After
// an error nothing of it runs, but parts can be left.
func (d *driver) startPod(ctx context.Context, p *pulled, name string, command []string) (pod *node.Pod, err error) {
	uid, err := d.createPod(ctx, p, name, command)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if d.kubelet != nil {
		err = d.await(ctx, name, func(s runtimeapi.ContainerState, made bool) bool {
			return made && s != runtimeapi.ContainerState_CONTAINER_CREATED
		})
	} else {
		pod, err = d.node.RunPod(ctx, node.PodSpec{Name: name, UID: uid, Containers: []node.PodContainer{{Name: podContainer, Image: p.Name, Command: command}}})
	}
	d.oracle.PodStarted(name, p.id, time.Now())
	if err != nil {
		d.oracle.Tried(p.id, time.Now()) // it may have run for a moment
		return nil, errors.Join(err, d.forget(ctx, p.id, name))
	}
	d.oracle.Used(p.id, begun, time.Now())
	return pod, nil
}

// errNotSoon: what a pod needs was not done within soon, for instance on a full disk.
var errNotSoon = errors.New("not soon")

const soon = 20 * time.Second

// await waits until the container of a pod is in some state. made is false if there is none.
func (d *driver) await(ctx context.Context, name string, is func(s runtimeapi.ContainerState, made bool) bool) error {
	runtime, _ := d.node.CRI()
	filter := &runtimeapi.ContainerFilter{LabelSelector: map[string]string{nameLabel: name}}
	ctx, cancel := context.WithTimeoutCause(ctx, soon, errNotSoon)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		r, err := runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
		if err != nil || len(r.Containers) == 0 {
			return err == nil && is(0, false), err
		}
		return is(r.Containers[0].State, true), nil
	})
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("pod %s: %w", name, cause)
	}
	return err
}

func ended(s runtimeapi.ContainerState, made bool) bool {
	return !made || s == runtimeapi.ContainerState_CONTAINER_EXITED
}

// forget deletes a pod that has ended. From now on the agent has to remove what is left of it.
func (d *driver) forget(ctx context.Context, image, name string) error {
	d.ended = append(d.ended, name)
	d.oracle.PodEnded(name, time.Now())
	return d.deletePod(ctx, image, name)
}

// endPod ends a pod as a kubelet does, which leaves its parts to the collector of containers, or has
// the kubelet end it. again: it may still run.
func (d *driver) endPod(ctx context.Context, s stay) (again bool, err error) {
	if s.pod != nil {
		if err := stopPod(ctx, s.pod); err != nil {
			return true, err
		}
	}
	err = d.forget(ctx, s.image.id, s.name)
	if s.pod == nil {
		err = errors.Join(err, d.await(ctx, s.name, ended))
	}
	return false, err
}

// stopPod stops a pod. On a full disk the CRI cannot record that a container has exited, and waits for
// that: the pod then ends later.
func stopPod(ctx context.Context, p *node.Pod) error {
	ctx, cancel := context.WithTimeoutCause(ctx, soon, errNotSoon)
	defer cancel()
	err := p.Stop(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("stop a pod: %w", cause)
	}
	return err
}

// podJob runs a pod that ends at once.
func (d *driver) podJob(ctx context.Context, p *pulled) error {
	d.serial++
	s := stay{image: p, name: fmt.Sprint("job-", d.serial), inPod: true}
	begun := time.Now()
	var err error
	if s.pod, err = d.startPod(ctx, p, s.name, []string{"/bin/busybox", "true"}); err != nil {
		return err
	}
	err = d.await(ctx, s.name, ended)
	d.oracle.Used(p.id, begun, time.Now())
	again, failed := d.endPod(ctx, s)
	if again {
		d.stays = append(d.stays, s)
	}
	return errors.Join(err, failed)
}

// checkPods compares the pods of the CRI with those that run and those that have ended.
func (d *driver) checkPods(ctx context.Context) error {
	asked := time.Now()
	runtime, _ := d.node.CRI()
	containers, err := runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return err
	}
	sandboxes, err := runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	logs, err := os.ReadDir(d.config.Filesystems.PodLogs.Path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	parts := make(map[string][]string) // by pod
	made, runs := make(map[string]bool), make(map[string]bool)
	for _, c := range containers.Containers {
		name := c.Labels[nameLabel]
		parts[name] = append(parts[name], "container "+c.Id)
		made[name] = true
		runs[name] = runs[name] || c.State == runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	for _, s := range sandboxes.Items {
		name := s.Labels[nameLabel]
		parts[name] = append(parts[name], "sandbox "+s.Id)
	}
	for _, l := range logs { // NAMESPACE_NAME_UID
		if of := strings.Split(l.Name(), "_"); len(of) == 3 {
			parts[of[1]] = append(parts[of[1]], "logs "+l.Name())
		}
	}
	for _, s := range d.stays {
		if s.inPod {
			d.oracle.PodRuns(s.name, runs[s.name] && len(parts[s.name]) >= 3, parts[s.name], asked)
		}
	}
	d.ended = slices.DeleteFunc(d.ended, func(name string) bool {
		d.oracle.PodLeft(name, made[name], parts[name], asked)
		return len(parts[name]) == 0
	})
	return nil
}

// awaitPodsGone waits until nothing is left of any pod that has ended.
func (d *driver) awaitPodsGone(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("pods that have ended are not gone"))
	defer cancel()
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := d.checkPods(ctx)
		return len(d.ended) == 0, err
	})
}
