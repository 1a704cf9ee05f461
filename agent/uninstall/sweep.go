package uninstall

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/ebb-agent/ebb/policy/gc"
	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// owners are the types that must be deleted before sweep deletes dependents: ebb is still installed
// while one of ebb's is there.
var (
	owners     = []gc.Type{daemonSets, typeOf("apps/v1", "Deployment"), typeOf("v1", "Service")}
	dependents = []gc.Type{typeOf("apps/v1", "ReplicaSet"), podType, revisions, typeOf("discovery.k8s.io/v1", "EndpointSlice")}
)

func (u *unloader) list(ctx context.Context, t gc.Type, labels string) ([]kube.ListedObject, error) {
	all, err := list(ctx, u.Client, t, kube.Selection{Namespace: u.o.Namespace, Labels: labels})
	if err != nil {
		return nil, fmt.Errorf("look for what ebb has left in namespace %s: %w", u.o.Namespace, err)
	}
	return all, nil
}

// swept returns the objects that may be swept. The objects that unload makes are not among them.
func (u *unloader) swept(ctx context.Context, t gc.Type) ([]kube.ListedObject, error) {
	if u.o.Sweep == "" {
		return nil, nil
	}
	return u.list(ctx, t, u.o.Sweep+",!"+unloadLabel)
}

// sweep deletes ebb's objects in its namespace that have lost their owner. If one of them is not
// being deleted already, ebb was installed since the last run.
func (u *unloader) sweep(ctx context.Context, done *Unloaded) error {
	for _, t := range owners {
		all, err := u.swept(ctx, t)
		if err != nil {
			return err
		}
		if all = slices.DeleteFunc(all, func(o kube.ListedObject) bool { return o.Terminating }); len(all) > 0 {
			return fmt.Errorf("%w: %s %s is there: delete it first (helm uninstall, or kubectl delete)", ErrInstalled, t.Kind, clean(all[0].Name))
		}
	}
	for _, name := range u.o.Leases { // Leases have no owner
		u.remove(ctx, typeOf("coordination.k8s.io/v1", "Lease"), gc.Object{Name: name}, done)
	}
	u.fresh = len(done.Swept) > 0
	for _, t := range dependents {
		all, err := u.swept(ctx, t)
		if err != nil {
			return err
		}
		for _, o := range all {
			if lost(o.Owners) {
				u.fresh = u.fresh || !o.Terminating
				u.remove(ctx, t, o.Object, done)
			}
		}
	}
	return ctx.Err()
}

// lost reports whether all owners of an object are of types of which nothing is left. Objects of
// other owners (the Job that this may be), or without an owner, are left alone.
func lost(references []gc.Reference) bool {
	return len(references) > 0 && !slices.ContainsFunc(references, func(r gc.Reference) bool {
		return !slices.Contains([]string{"DaemonSet", "Deployment", "ReplicaSet", "Service"}, r.Kind)
	})
}

// remove deletes an object, if it still has the same UID.
func (u *unloader) remove(ctx context.Context, t gc.Type, o gc.Object, done *Unloaded) {
	options := deleteOptions()
	if o.UID != "" {
		options["preconditions"] = object{"uid": o.UID}
	}
	err := send(ctx, u.Client, http.MethodDelete, pathOf(t, u.o.Namespace, o.Name), nil, options, nil)
	switch code := kube.Answered(err); {
	case err == nil:
		done.Swept = append(done.Swept, t.Kind+" "+clean(o.Name))
		u.say("%s %s deleted", t.Kind, clean(o.Name))
	case code != http.StatusNotFound && code != http.StatusConflict: // with these, a collector was faster
		done.Left, done.refused = append(done.Left, clean(err.Error())), true
	}
}

func deleteOptions() object {
	return object{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
}
