package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-agent/ebb/bench/soak/oracle"
	"github.com/ebb-agent/ebb/bench/soak/plan"
	"github.com/ebb-agent/ebb/tools/csi"
	"github.com/ebb-agent/ebb/tools/extension"
)

const (
	atOnce   = 16 // requests of operations in flight
	ahead    = 64 // operations that were begun and have not ended
	patience = 90 * time.Second
)

// driver carries operations out. Those on one name, and on its owners, keep their order.
type driver struct {
	client    *client
	oracle    *oracle.Oracle
	extension *extension.Server
	volumes   *csi.Driver
	// certificate, in PEM, is the answer to all requests.
	certificate []byte
	log         io.Writer // a line for each operation

	// quiet is held for writing while etcd is restored. Then nothing is sent, and no operation uses
	// a UID that may not come back.
	quiet sync.RWMutex
	slots chan struct{} // requests in flight
	begun chan struct{} // operations begun
	group sync.WaitGroup
	next  atomic.Int64 // the number of the next operation

	mu     sync.Mutex
	uids   map[int]string // by slot: of its last object
	names  map[int]*plan.Slot
	held   map[int]*plan.Slot
	last   map[int]chan struct{} // by slot: closed when the last operation on it has ended
	spaces map[string]chan struct{}
	done   map[string]int // how operations ended
}

func newDriver(c *client, o *oracle.Oracle, log io.Writer) *driver {
	return &driver{client: c, oracle: o, log: log, slots: make(chan struct{}, atOnce), begun: make(chan struct{}, ahead),
		uids: map[int]string{}, names: map[int]*plan.Slot{}, held: map[int]*plan.Slot{}, last: map[int]chan struct{}{}, spaces: map[string]chan struct{}{}, done: map[string]int{}}
}

// start starts an operation. It waits while too many have not ended.
func (d *driver) start(ctx context.Context, op plan.Op) {
	select {
	case d.begun <- struct{}{}:
	case <-ctx.Done():
		return
	}
	ended := make(chan struct{})
	after := d.enqueue(op, ended)
	d.next.Store(int64(op.N) + 1)
	d.group.Go(func() {
		defer func() { close(ended); <-d.begun }()
		for _, c := range after {
			<-c
		}
		d.slots <- struct{}{}
		defer func() { <-d.slots }()
		d.carryOut(ctx, op)
	})
}

// enqueue adds an operation, and returns the ends of those that must come before it.
func (d *driver) enqueue(op plan.Op, ended chan struct{}) (after []chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if op.Slot == nil {
		if op.Namespace != "" {
			if c := d.spaces[op.Namespace]; c != nil {
				after = append(after, c)
			}
			d.spaces[op.Namespace] = ended
		}
		return after
	}
	if c := d.spaces[op.Slot.Namespace]; c != nil {
		after = append(after, c)
	}
	if c := d.last[op.Slot.ID]; c != nil {
		after = append(after, c)
	}
	for _, r := range op.Owners {
		if c := d.last[r.Owner.ID]; c != nil {
			after = append(after, c)
		}
	}
	d.last[op.Slot.ID], d.names[op.Slot.ID] = ended, op.Slot
	if op.Hold {
		d.held[op.Slot.ID] = op.Slot
	}
	return after
}

// carryOut carries an operation out. It retries while the API servers are away, for up to patience.
func (d *driver) carryOut(ctx context.Context, op plan.Op) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begun := time.Now()
	end := "done"
	for tries := 1; ; tries++ {
		err := d.attempt(ctx, op)
		if err != nil && ctx.Err() == nil && (again(err) || codeOf(err) == http.StatusConflict && op.Verb == plan.Lift && !op.Slot.Kind.Outside) {
			sleep(ctx, 150*time.Millisecond)
			continue
		}
		if bare(err) && op.Verb == plan.Create && op.Slot.Kind.Custom && tries < 4 {
			_ = d.define(ctx, op.Slot.Kind) // lost by a restore, or new here: the next attempt shows
			continue
		}
		switch code := codeOf(err); {
		case err == nil:
		case code == http.StatusNotFound || code == http.StatusConflict || code == http.StatusForbidden && strings.Contains(err.Error(), "being terminated"):
			end = fmt.Sprint("too late: ", code)
		case code > 0:
			end = fmt.Sprint("refused: ", err)
		default:
			end = fmt.Sprint("given up: ", err)
		}
		fmt.Fprintf(d.log, "%s %s: %s after %v, tries %d\n", begun.Format("15:04:05.000"), op, end, time.Since(begun).Round(time.Millisecond), tries)
		break
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	word, _, _ := strings.Cut(end, ":")
	d.done[word]++
}

// attempt tries an operation once.
func (d *driver) attempt(ctx context.Context, op plan.Op) error {
	d.quiet.RLock()
	defer d.quiet.RUnlock()
	outside := op.Slot != nil && op.Slot.Kind.Outside
	switch op.Verb {
	case plan.Create:
		if outside {
			return d.createOutside(op)
		}
		return d.create(ctx, op)
	case plan.Own:
		return d.patch(ctx, op, object{"uid": d.uid(op.Slot), "ownerReferences": d.references(op), "annotations": mark(op)})
	case plan.Delete:
		if outside {
			return d.removeOutside(op.Slot, op.Policy)
		}
		return d.remove(ctx, op.Slot, op.Policy)
	case plan.Lift:
		if outside {
			return d.liftOutside(op.Slot)
		}
		return d.lift(ctx, op)
	case plan.Finish:
		return d.finish(ctx, op)
	case plan.Define:
		return d.define(ctx, op.Kind)
	case plan.NewSpace:
		return d.client.ask(ctx, http.MethodPost, "/api/v1/namespaces", object{"metadata": object{"name": op.Namespace}}, nil)
	default:
		return d.client.ask(ctx, http.MethodDelete, "/api/v1/namespaces/"+op.Namespace, nil, nil)
	}
}

func mark(op plan.Op) object { return object{oracle.MarkAnnotation: fmt.Sprint(op.N)} }

// versions sends a request for each version of a kind until one is served.
func (d *driver) versions(ctx context.Context, method string, k *plan.Kind, path func(version int) string, in, out any) (err error) {
	for v := range k.Versions {
		body := in
		if o, ok := in.(object); ok && method == http.MethodPost {
			o["apiVersion"] = k.APIVersion(v)
		}
		if err = d.client.ask(ctx, method, path(v), body, out); !bare(err) {
			return err
		}
	}
	return err
}

type answer struct {
	Metadata struct {
		UID, ResourceVersion, DeletionTimestamp string
		Finalizers                              []string
	}
}

func (d *driver) create(ctx context.Context, op plan.Op) error {
	body := op.Body(time.Now())
	body["metadata"].(object)["ownerReferences"] = d.references(op)
	if op.Slot.Kind.Kind == "PersistentVolume" && !d.volumes.Has(volumePrefix+op.Slot.Name) {
		if _, err := d.volumes.Make(op.Slot.Name); err != nil {
			return err
		}
	}
	var out answer
	err := d.versions(ctx, http.MethodPost, op.Slot.Kind, func(v int) string { return op.Slot.Kind.Path(v, op.Slot.Namespace, "") }, body, &out)
	if codeOf(err) == http.StatusConflict { // by an attempt that got no answer, or a former object
		if d.versions(ctx, http.MethodGet, op.Slot.Kind, op.Slot.Path, nil, &out) != nil {
			return err
		}
	}
	if out.Metadata.UID != "" {
		d.know(op.Slot, out.Metadata.UID)
	}
	return err
}

func (d *driver) know(s *plan.Slot, uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.uids[s.ID] = uid
}

// uid returns the UID of the last object in a slot. If there was none, the UID is of no object.
func (d *driver) uid(s *plan.Slot) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if uid := d.uids[s.ID]; uid != "" {
		return uid
	}
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", s.ID)
}

func (d *driver) references(op plan.Op) []object {
	refs := []object{}
	for _, r := range op.Owners {
		o := object{"apiVersion": r.Owner.Kind.APIVersion(r.Version), "kind": r.Owner.Kind.Kind, "name": r.Owner.Name, "uid": d.uid(r.Owner), "blockOwnerDeletion": r.Block}
		switch r.Wrong {
		case "version":
			o["apiVersion"] = strings.TrimPrefix(r.Owner.Kind.Group+"/v9", "/")
		case "kind":
			o["apiVersion"], o["kind"] = "v1", "ServiceAccount"
		}
		refs = append(refs, o)
	}
	return refs
}

// patch patches the metadata of an object. The UID in the patch limits it to that very object.
func (d *driver) patch(ctx context.Context, op plan.Op, metadata object) error {
	return d.versions(ctx, http.MethodPatch, op.Slot.Kind, op.Slot.Path, object{"metadata": metadata}, nil)
}

// finish writes the status of an ended object, or renews a Lease. The UID in each patch limits it
// to that very object.
func (d *driver) finish(ctx context.Context, op plan.Op) error {
	for _, c := range op.Changes(time.Now(), d.certificate) {
		c.Patch["metadata"] = object{"uid": d.uid(op.Slot)}
		path := func(v int) string { return op.Slot.Path(v) + c.Subresource }
		if err := d.versions(ctx, http.MethodPatch, op.Slot.Kind, path, c.Patch, nil); err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) remove(ctx context.Context, s *plan.Slot, policy string) error {
	uid := d.uid(s)
	options := object{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": object{"uid": uid}}
	if policy != "" {
		options["propagationPolicy"] = policy
	}
	d.oracle.Deleting(uid, policy)
	err := d.versions(ctx, http.MethodDelete, s.Kind, s.Path, options, nil)
	if code := codeOf(err); code >= 400 && code < 500 {
		d.oracle.Refused(uid)
	}
	return err
}

// lift removes the foreign finalizers.
func (d *driver) lift(ctx context.Context, op plan.Op) error {
	var now answer
	if err := d.versions(ctx, http.MethodGet, op.Slot.Kind, op.Slot.Path, nil, &now); err != nil {
		return err
	}
	rest := []string{}
	for _, f := range now.Metadata.Finalizers {
		if !strings.HasPrefix(f, oracle.Hold) {
			rest = append(rest, f)
		}
	}
	if len(rest) == len(now.Metadata.Finalizers) {
		return nil
	}
	d.oracle.Lifting(now.Metadata.UID)
	return d.patch(ctx, op, object{"uid": now.Metadata.UID, "resourceVersion": now.Metadata.ResourceVersion, "finalizers": rest, "annotations": mark(op)})
}

// define defines a kind, and waits until it is served.
func (d *driver) define(ctx context.Context, k *plan.Kind) error {
	err := d.client.ask(ctx, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", k.Definition(func(string) bool { return true }), nil)
	if err != nil && codeOf(err) != http.StatusConflict {
		return err
	}
	return poll(ctx, func() (bool, error) {
		err := d.versions(ctx, http.MethodGet, k, func(v int) string { return "/apis/" + k.APIVersion(v) + "/" + k.Resource + "?limit=1" }, nil, nil)
		return err == nil, nil
	})
}

// restored takes over the UIDs of the objects that exist after a restore, by etcd's keys.
func (d *driver) restored(uids map[string]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, s := range d.names {
		if uid := uids[key(s)]; uid != "" {
			d.uids[id] = uid
		}
	}
}

// key returns the key in etcd of the object in a slot.
func key(s *plan.Slot) string {
	k := registry
	if s.Kind.Outside {
		k = outsideKey
	}
	if s.Kind.Custom {
		k += s.Kind.Group + "/"
	}
	if s.Kind.Kind == "Node" {
		k += "minions/" // the former name of Nodes
	} else {
		k += s.Kind.Resource + "/"
	}
	if s.Namespace != "" {
		k += s.Namespace + "/"
	}
	return k + s.Name
}

// liftAll removes every foreign finalizer.
func (d *driver) liftAll(ctx context.Context, n int) error {
	d.mu.Lock()
	var held []*plan.Slot
	for _, s := range d.held {
		held = append(held, s)
	}
	d.mu.Unlock()
	for _, s := range held {
		d.start(ctx, plan.Op{N: n, Verb: plan.Lift, Slot: s})
		n++
	}
	d.group.Wait()
	return ctx.Err()
}
