package uninstall

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

const (
	// looking is between two looks at a pod.
	looking = 500 * time.Millisecond
	// cleanup bounds what is done after an interruption.
	cleanup = 20 * time.Second
)

// errNotGone: it is being deleted, and does not go.
var errNotGone = errors.New("does not go")

// pod is what is read of one.
type pod struct {
	Metadata metadata
	Status   struct {
		Phase, Reason, Message string
		StartTime              string
		ContainerStatuses      []struct {
			State struct {
				Waiting    *struct{ Reason, Message string }
				Terminated *struct {
					Message, Reason string
					ExitCode        int
				}
			}
		}
	}
}

func (p *pod) ended() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// says is why a pod has failed, or what it waits for.
func (p *pod) says() string {
	for _, c := range p.Status.ContainerStatuses {
		switch {
		case c.State.Terminated != nil && c.State.Terminated.Message != "":
			return clean(c.State.Terminated.Message)
		case c.State.Terminated != nil:
			return fmt.Sprintf("exit code %d, %s", c.State.Terminated.ExitCode, clean(c.State.Terminated.Reason))
		case c.State.Waiting != nil:
			return clean(c.State.Waiting.Reason + " " + c.State.Waiting.Message)
		}
	}
	return clean(p.Status.Reason + " " + p.Status.Message)
}

func (u *unloader) podPath(name string) string {
	path := "/api/v1/namespaces/" + url.PathEscape(u.o.Namespace) + "/pods"
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return path
}

// unload runs one node's pod to its end, and deletes it.
func (u *unloader) unload(ctx context.Context, node string) NodeResult {
	ctx, cancel := context.WithTimeout(ctx, u.o.Timeout)
	defer cancel()
	r := NodeResult{Node: node, Result: Failed}
	var p pod
	body := u.template.on(node, u.o.Namespace, int(u.o.Timeout.Seconds())+1)
	err := u.do(ctx, request{method: http.MethodPost, path: u.podPath(""), body: body}, &p)
	if err != nil && !is(err, http.StatusConflict) { // an attempt of before may have made it
		r.Says = clean(err.Error())
		return r
	}
	last, err := u.await(ctx, podName(node))
	if err != nil {
		r.Result, r.Says = NotInTime, clean(err.Error())
	} else if last.Status.Phase == "Succeeded" {
		r.Result = Clean
	} else {
		r.Says = last.says()
	}
	if err := u.remove(ctx, last); err != nil {
		r.Result, r.Says = NotInTime, clean("its pod: "+err.Error()+"; "+r.Says)
	}
	return r
}

// await waits for a pod's end. It returns the last that was seen of it, always.
func (u *unloader) await(ctx context.Context, name string) (last pod, err error) {
	last.Metadata.Name = name
	for {
		var p pod
		err := u.do(ctx, request{method: http.MethodGet, path: u.podPath(name)}, &p)
		switch {
		case is(err, http.StatusNotFound):
			return last, errors.New("somebody has deleted the pod")
		case err == nil:
			if last = p; p.ended() {
				return last, nil
			}
		case ctx.Err() == nil && !isUnavailable(err):
			return last, err
		}
		if !sleep(ctx, looking) {
			return last, fmt.Errorf("no end within %s%s", u.o.Timeout, colon(last.waitsFor()))
		}
	}
}

// isUnavailable tells errors that may pass.
func isUnavailable(err error) bool {
	var r *refusal
	return !errors.As(err, &r) || r.code/100 == 5 || r.code == http.StatusTooManyRequests
}

func (p *pod) waitsFor() string {
	if says := p.says(); says != "" {
		return says
	}
	if p.Status.StartTime == "" {
		return "the kubelet there has not taken the pod: is the node down?"
	}
	return "it runs"
}

// remove deletes a pod, even if nobody waits any more. One that its kubelet has never
// taken is gone at once; otherwise it has a moment to end.
func (u *unloader) remove(ctx context.Context, p pod) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer cancel()
	grace := 5
	if p.ended() || p.Status.StartTime == "" {
		grace = 0
	}
	for {
		err := u.remove1(ctx, p.Metadata, grace)
		if err != nil || grace == 0 {
			return err
		}
		err = u.gone(ctx, p.Metadata.Name, cleanup/2)
		if !errors.Is(err, errNotGone) {
			return err
		}
		grace = 0 // the node has gone away meanwhile
	}
}

func (u *unloader) remove1(ctx context.Context, m metadata, grace int) error {
	body := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": grace}
	if m.UID != "" {
		body["preconditions"] = map[string]any{"uid": m.UID}
	}
	err := u.do(ctx, request{method: http.MethodDelete, path: u.podPath(m.Name), body: body}, nil)
	if is(err, http.StatusNotFound) || is(err, http.StatusConflict) {
		return nil // it is gone, or another one is there
	}
	return err
}

// gone waits until there is no such pod.
func (u *unloader) gone(ctx context.Context, name string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := u.do(ctx, request{method: http.MethodGet, path: u.podPath(name)}, nil)
		if is(err, http.StatusNotFound) {
			return nil
		}
		if !sleep(ctx, looking) {
			return fmt.Errorf("pod %s: %w", clean(name), errNotGone)
		}
	}
}

// clearPods deletes what an earlier run has left.
func (u *unloader) clearPods(ctx context.Context) error {
	var old []metadata
	query := url.Values{"labelSelector": {unloadLabel + "=true"}}
	err := u.list(ctx, u.podPath(""), query, func() { old = nil }, func(m metadata) { old = append(old, m) })
	if err != nil {
		return fmt.Errorf("list pods of an earlier run: %w", err)
	}
	for _, m := range old {
		p := pod{Metadata: m}
		p.Status.StartTime = "unknown"
		if err := u.remove(ctx, p); err != nil {
			return fmt.Errorf("delete pod %s of an earlier run: %w", clean(m.Name), err)
		}
		u.say("pod %s of an earlier run deleted", clean(m.Name))
	}
	return nil
}
