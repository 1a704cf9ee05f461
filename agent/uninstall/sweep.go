package uninstall

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// place is a type of objects in a namespace.
type place struct{ kind, prefix, resource string }

func (p place) path(namespace, name string) string {
	path := p.prefix + "/namespaces/" + url.PathEscape(namespace) + "/" + p.resource
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	return path
}

var (
	daemonSets  = place{"DaemonSet", "/apis/apps/v1", "daemonsets"}
	deployments = place{"Deployment", "/apis/apps/v1", "deployments"}
	replicaSets = place{"ReplicaSet", "/apis/apps/v1", "replicasets"}
	services    = place{"Service", "/api/v1", "services"}
	pods        = place{"Pod", "/api/v1", "pods"}
	leases      = place{"Lease", "/apis/coordination.k8s.io/v1", "leases"}

	// owners can be told to be gone; dependents go when theirs is. A ReplicaSet is both.
	owners     = []place{daemonSets, deployments, replicaSets, services}
	dependents = []place{
		replicaSets, pods, {"ControllerRevision", "/apis/apps/v1", "controllerrevisions"},
		{"EndpointSlice", "/apis/discovery.k8s.io/v1", "endpointslices"},
	}
)

// sweep deletes what was ebb's in its namespace and has lost its owner, and waits for
// the pods: agents among them, beside which no node can be cleared.
func (u *unloader) sweep(ctx context.Context, done *Unloaded) error {
	if u.o.Sweep == "" {
		u.deleteLeases(ctx, done)
		return nil
	}
	for _, p := range []place{daemonSets, deployments} {
		list, err := u.labelled(ctx, p)
		if err != nil {
			return err
		}
		for _, m := range list {
			if m.DeletionTimestamp == "" {
				return fmt.Errorf("%w: %s %s is there: delete it first (helm uninstall, or kubectl delete)", ErrInstalled, p.kind, clean(m.Name))
			}
		}
	}
	u.deleteLeases(ctx, done)
	var going []metadata
	for _, p := range dependents {
		gone, err := u.sweepOf(ctx, p, done)
		if err != nil {
			return err
		}
		if p == pods {
			going = gone
		}
	}
	deadline := time.Now().Add(u.o.Timeout)
	for _, m := range going {
		if err := u.gone(ctx, m.Name, max(time.Until(deadline), looking)); err != nil {
			done.Left = append(done.Left, clean(err.Error())+": is its node down?")
		}
	}
	return ctx.Err()
}

// deleteLeases: nobody owns them.
func (u *unloader) deleteLeases(ctx context.Context, done *Unloaded) {
	for _, name := range u.o.Leases {
		err := u.do(ctx, request{method: http.MethodDelete, path: leases.path(u.o.Namespace, name)}, nil)
		switch {
		case err == nil:
			done.Swept = append(done.Swept, "Lease "+clean(name))
		case !is(err, http.StatusNotFound):
			done.Left = append(done.Left, clean(err.Error()))
		}
	}
}

func (u *unloader) labelled(ctx context.Context, p place) (found []metadata, err error) {
	query := url.Values{"labelSelector": {u.o.Sweep}}
	err = u.list(ctx, p.path(u.o.Namespace, ""), query, func() { found = nil }, func(m metadata) { found = append(found, m) })
	if err != nil {
		return nil, fmt.Errorf("look for what ebb has left in namespace %s: %w", u.o.Namespace, err)
	}
	return found, nil
}

// sweepOf deletes those of one type. Owners are read anew for each: what has just been
// deleted is an owner, too.
func (u *unloader) sweepOf(ctx context.Context, p place, done *Unloaded) (swept []metadata, err error) {
	list, err := u.labelled(ctx, p)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	alive, err := u.owners(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range list {
		if !lost(m, alive) {
			continue
		}
		body := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": map[string]any{"uid": m.UID}}
		err := u.do(ctx, request{method: http.MethodDelete, path: p.path(u.o.Namespace, m.Name), body: body}, nil)
		switch {
		case err == nil:
			swept = append(swept, m)
			done.Swept = append(done.Swept, p.kind+" "+clean(m.Name))
			u.say("%s %s deleted: its owner is gone", p.kind, clean(m.Name))
		case is(err, http.StatusNotFound), is(err, http.StatusConflict): // a collector was faster
			swept = append(swept, m)
		default:
			done.Left = append(done.Left, clean(err.Error()))
		}
	}
	return swept, nil
}

// owners are the UIDs of those that are there.
func (u *unloader) owners(ctx context.Context) (alive map[string][]string, err error) {
	alive = make(map[string][]string)
	for _, p := range owners {
		var uids []string
		err := u.list(ctx, p.path(u.o.Namespace, ""), nil, func() { uids = nil }, func(m metadata) {
			if m.DeletionTimestamp == "" {
				uids = append(uids, m.UID)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("look for owners in namespace %s: %w", u.o.Namespace, err)
		}
		alive[p.kind] = uids
	}
	return alive, nil
}

// lost tells whether an object had owners and all of them are known to be gone. What
// belongs to a type that was not looked at (the Job that this may be) is left alone.
func lost(m metadata, alive map[string][]string) bool {
	for _, r := range m.OwnerReferences {
		uids, known := alive[r.Kind]
		if !known || slices.Contains(uids, r.UID) {
			return false
		}
	}
	return len(m.OwnerReferences) > 0
}
