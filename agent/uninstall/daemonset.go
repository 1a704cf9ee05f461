package uninstall

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const (
	// cleanup bounds the removal of the DaemonSet. ending is how long swept pods have to end. After
	// force, the DaemonSet's own pods are deleted without a grace period.
	cleanup, ending, force = 2 * time.Minute, 40 * time.Second, 15 * time.Second
	// maxNames bounds the names of nodes in a DaemonSet, in bytes: etcd takes 1.5 MiB.
	maxNames = 256 << 10
)

// begin makes the DaemonSet for the nodes that are left. If a recent run has left one with the same
// template and for the same nodes, begin resumes it.
func (u *unloader) begin(ctx context.Context, left []string) error {
	path := pathOf(daemonSets, u.o.Namespace, setName)
	var old struct{ Spec struct{ Template template } }
	if err := send(ctx, u.Client, http.MethodGet, path, nil, nil, &old); err != nil && kube.Answered(err) != http.StatusNotFound {
		return err
	}
	what := []any{u.template, u.o.Nodes, u.o.NodeSelector}
	u.run = old.Spec.Template.Metadata.Labels[runLabel]
	at, goesOn := begunAt(u.run, what...)
	if goesOn = goesOn && !u.fresh; goesOn {
		u.say("resuming with DaemonSet %s", setName)
	} else {
		at, u.run = u.begun, stamp(u.begun, what...)
	}
	if at.Before(u.since) {
		u.since = at
	}
	o := u.o
	if len(u.known) > 0 && len(strings.Join(left, "")) < maxNames {
		o.Nodes = left
	}
	set, err := u.template.daemonSet(o, u.run)
	if err != nil {
		return err
	}
	var made struct{ Metadata struct{ UID string } }
	err = send(ctx, u.Client, http.MethodPatch, path, url.Values{"fieldManager": {"ebb-uninstall"}, "force": {"true"}}, set, &made)
	u.uid = made.Metadata.UID
	return err
}

// end deletes the DaemonSet and the objects that it has made, because there may be no garbage
// collector left. It waits for these pods and for the swept ones to end. Pods of nodes that are
// down never end: its own are deleted by force, the swept ones are reported.
func (u *unloader) end(ctx context.Context, done *Unloaded) error {
	ctx, cancel := context.WithTimeout(ctx, cleanup)
	defer cancel()
	err := send(ctx, u.Client, http.MethodDelete, pathOf(daemonSets, u.o.Namespace, setName), nil, deleteOptions(), nil)
	if err != nil && kube.Answered(err) != http.StatusNotFound {
		return err
	}
	ours, options := url.Values{"labelSelector": {unloadLabel + "=true"}}, deleteOptions()
	for begun := time.Now(); ; {
		waited := time.Since(begun)
		if waited > force {
			options["gracePeriodSeconds"] = 0
		}
		err := send(ctx, u.Client, http.MethodDelete, pathOf(podType, u.o.Namespace, ""), ours, options, nil)
		left, listErr := u.list(ctx, podType, unloadLabel+"=true")
		swept, sweptErr := u.swept(ctx, podType)
		swept = slices.DeleteFunc(swept, func(o kube.ListedObject) bool { return !lost(o.Owners) })
		if err = errors.Join(err, listErr, sweptErr); err == nil && len(left) == 0 && (len(swept) == 0 || waited > ending) {
			for _, o := range swept {
				done.Left = append(done.Left, fmt.Sprintf("pod %s does not go: is its node down?", clean(o.Name)))
			}
			return send(ctx, u.Client, http.MethodDelete, pathOf(revisions, u.o.Namespace, ""), ours, deleteOptions(), nil)
		}
		if !pauseFor(ctx, len(left)) {
			return fmt.Errorf("delete the pods of DaemonSet %s: %d are left: %w", setName, len(left), errors.Join(err, ctx.Err()))
		}
	}
}
