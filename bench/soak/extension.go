package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/soak/oracle"
	"github.com/ebb-agent/ebb/bench/soak/plan"
	"github.com/ebb-agent/ebb/tools/extension"
	"github.com/ebb-agent/ebb/tools/peers"
)

const (
	extensionPath = servicePath + "/v1.ext.example.com"
	outsideKey    = "/outside/"
)

// extend starts another API server behind the aggregator. That server reports its changes to the
// oracle directly, because its answers to clients may be false.
func (b *fixture) extend(ctx context.Context) (err error) {
	b.outside = make(chan func(), 1<<16)
	if b.extension, err = extension.New(b.cp.Authority(), extension.Config{Group: "ext.example.com", Changed: b.heard}); err != nil {
		return err
	}
	b.driver.extension = b.extension
	if err := b.extension.Register(ctx, b.cp); err != nil {
		return err
	}
	var made object
	if err := b.client.insist(ctx, http.MethodGet, extensionPath, nil, &made); err != nil {
		return err
	}
	b.announced = object{"metadata": object{"name": "v1.ext.example.com"}, "spec": made["spec"]}
	b.judging.Go(func() { b.judge(ctx) })
	return nil
}

// heard reports a change to the oracle.
func (b *fixture) heard(resource string, o extension.Object, gone bool) {
	x := &oracle.Object{Key: outsideKey + resource + "/" + o.Namespace + "/" + o.Name, APIVersion: "ext.example.com/v1", Kind: "Thing",
		Namespace: o.Namespace, Name: o.Name, UID: o.UID, Finalizers: o.Finalizers, Terminating: o.Deleting}
	for _, r := range o.Owners {
		x.Owners = append(x.Owners, oracle.Owner{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, UID: string(r.UID), Block: r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion})
	}
	b.outside <- b.oracle.Outside(time.Now(), x, gone)
}

// judge judges each change outside once the oracle knows all of etcd up to it.
func (b *fixture) judge(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case judge := <-b.outside:
			for ctx.Err() == nil {
				short, cancel := context.WithTimeout(ctx, time.Second)
				_, err := b.watcher.catchUp(short)
				cancel()
				if err == nil {
					judge()
					break
				}
				sleep(ctx, 50*time.Millisecond) // etcd is away
			}
		}
	}
}

// errTooLate is the error for an object that is gone or was replaced.
var errTooLate = &peers.StatusError{Code: http.StatusConflict, Body: "there is another, or none"}

// createOutside makes an object in the extension server's own store, whatever the server answers to
// clients at this moment.
func (d *driver) createOutside(op plan.Op) error {
	s := op.Slot
	if o, found := d.extension.Get(s.Kind.Resource, s.Namespace, s.Name); found {
		d.know(s, o.UID)
		return errTooLate
	}
	o := extension.Object{Namespace: s.Namespace, Name: s.Name}
	for _, r := range d.references(op) {
		block := r["blockOwnerDeletion"].(bool)
		o.Owners = append(o.Owners, metav1.OwnerReference{APIVersion: r["apiVersion"].(string), Kind: r["kind"].(string), Name: r["name"].(string),
			UID: types.UID(r["uid"].(string)), BlockOwnerDeletion: &block})
	}
	if op.Hold {
		o.Finalizers = []string{oracle.Hold + "hold"}
	}
	d.know(s, d.extension.Add(s.Kind.Resource, o))
	return nil
}

// removeOutside does what a DELETE would.
func (d *driver) removeOutside(s *plan.Slot, policy string) error {
	uid := d.uid(s)
	d.oracle.Deleting(uid, policy)
	return d.changeOutside(s, uid, func(o *extension.Object) {
		o.Deleting = true
		if policy != "" {
			o.Finalizers = slices.DeleteFunc(o.Finalizers, func(f string) bool { return !strings.HasPrefix(f, oracle.Hold) })
		}
		switch policy {
		case plan.Orphan:
			o.Finalizers = append(o.Finalizers, metav1.FinalizerOrphanDependents)
		case plan.Foreground:
			o.Finalizers = append(o.Finalizers, metav1.FinalizerDeleteDependents)
		}
	})
}

func (d *driver) liftOutside(s *plan.Slot) error {
	uid := d.uid(s)
	d.oracle.Lifting(uid)
	return d.changeOutside(s, uid, func(o *extension.Object) {
		o.Finalizers = slices.DeleteFunc(o.Finalizers, func(f string) bool { return strings.HasPrefix(f, oracle.Hold) })
	})
}

// changeOutside changes an object, and removes it if it is deleted and has no finalizers.
func (d *driver) changeOutside(s *plan.Slot, uid string, change func(*extension.Object)) error {
	gone, is := false, false
	d.extension.Change(s.Kind.Resource, s.Namespace, s.Name, func(o *extension.Object) {
		if is = o.UID == uid; is {
			change(o)
			gone = o.Deleting && len(o.Finalizers) == 0
		}
	})
	if gone {
		d.extension.Remove(s.Kind.Resource, s.Namespace, s.Name)
	}
	if !is {
		d.oracle.Refused(uid)
		return errTooLate
	}
	return nil
}

// extensionFault makes the extension server misbehave in one way or two.
func (f *faults) extensionFault(ctx context.Context, x plan.Fault) error {
	all := extension.All()
	fault := all[x.Which%len(all)] | all[x.Which/len(all)%len(all)]
	benchmark.Say("the extension server: %s", fault)
	if fault&(extension.EmptyLists|extension.LateWatch) != 0 {
		i := f.hidden.begin(time.Now())
		defer func() { f.hidden.end(i, time.Now()) }()
	}
	f.extension.Set(fault)
	sleep(ctx, 3*x.Lasts)
	f.extension.Clear(fault)
	return nil
}

func (f *faults) extensionRestarted(context.Context, plan.Fault) error {
	f.extension.Restart()
	return nil
}

// extensionAway removes the extension server's types from discovery for a while.
func (f *faults) extensionAway(ctx context.Context, x plan.Fault) error {
	i := f.hidden.begin(time.Now())
	defer func() { f.hidden.end(i, time.Now()) }()
	if err := gone(ctx, f.client, extensionPath); err != nil {
		return f.announce(ctx)
	}
	sleep(ctx, 2*x.Lasts)
	return f.announce(ctx)
}

// announce registers the extension server, unless it is registered.
func (f *faults) announce(ctx context.Context) error {
	ctx, cancel := healed(ctx)
	defer cancel()
	err := f.client.insist(ctx, http.MethodPost, servicePath, f.announced, nil)
	if codeOf(err) == http.StatusConflict {
		return nil
	}
	return err
}
