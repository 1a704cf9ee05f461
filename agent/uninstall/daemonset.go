package uninstall

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

const (
	// cleanup bounds the removal of the DaemonSet. ending is how long swept pods have to end. After
	// force, the DaemonSet's own pods are deleted without a grace period.
	cleanup, ending, force = 2 * time.Minute, 40 * time.Second, 15 * time.Second
	// ofJob is the ConfigMap with what the chart's Job needs.
	ofJob = "ebb-uninstall-unload"
	// resumable is how long after its start a run may be resumed. Later, ebb may have been
	// installed again: nodes that were clean are cleaned once more.
	resumable = 15 * time.Minute
)

// stamp identifies a run by its start and by what it does.
func stamp(begun time.Time, what ...any) string {
	sum := sha256.Sum256(fmt.Append(nil, what...))
	return fmt.Sprintf("%d-%x", begun.Unix(), sum[:8])
}

// mayResume reports whether a run began recently, and does the same as what.
func mayResume(run string, what ...any) bool {
	text, _, _ := strings.Cut(run, "-")
	seconds, err := strconv.ParseInt(text, 10, 64)
	at := time.Unix(seconds, 0)
	return err == nil && run == stamp(at, what...) && time.Since(at).Abs() <= resumable
}

// begin makes the DaemonSet. If a recent run has left one with the same template and for the same
// nodes, begin resumes it.
func (u *unloader) begin(ctx context.Context) error {
	path := pathOf(daemonSets, u.o.Namespace, setName)
	var old struct{ Spec struct{ Template template } }
	if err := send(ctx, u.Client, http.MethodGet, path, nil, nil, &old); err != nil && kube.Answered(err) != http.StatusNotFound {
		return err
	}
	what := []any{u.template, u.o.Nodes, u.o.NodeSelector}
	u.run = old.Spec.Template.Metadata.Labels[runLabel]
	if !u.fresh && mayResume(u.run, what...) {
		u.say("resuming with DaemonSet %s", setName)
	} else {
		u.run = stamp(u.begun, what...)
	}
	set, err := u.template.daemonSet(u.o, u.run)
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
				done.Left = append(done.Left, fmt.Sprintf("pod %s is still there: is its node down?", clean(o.Name)))
			}
			return send(ctx, u.Client, http.MethodDelete, pathOf(revisions, u.o.Namespace, ""), ours, deleteOptions(), nil)
		}
		if !pauseFor(ctx, len(left)) {
			return fmt.Errorf("delete the pods of DaemonSet %s: %d are left: %w", setName, len(left), errors.Join(err, ctx.Err()))
		}
	}
}
