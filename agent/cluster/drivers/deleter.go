// Package drivers has CSI drivers delete volumes. Just before each deletion, it reads live all that
// must hold for it.
package drivers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/volumes"
	"github.com/ebb-agent/ebb/runtime/csi"
	"github.com/ebb-agent/ebb/runtime/kube/fields"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// API is the API server: see [metadata.Client].
type API interface {
	Read(ctx context.Context, o gc.Coordinates, namespaced bool) (gc.Answer, error)
	Do(ctx context.Context, a gc.Action, namespaced bool) metadata.Outcome
	ListFields(ctx context.Context, t gc.Type, s metadata.Selection, fields metadata.Fields, take func(gc.Object, any) error) error
	ReadFields(ctx context.Context, o gc.Coordinates, namespaced bool, fields metadata.Fields) (any, error)
	Time(now time.Time) (at time.Time, known bool)
}

// Driver deletes volumes. It is a [csi.Driver], or a fake in tests.
type Driver interface {
	// Ready returns nil if the driver can delete volumes and is the expected one.
	Ready(ctx context.Context) error
	DeleteVolume(ctx context.Context, handle string, secrets map[string]string) error
	Socket() string
	Close()
}

// Open returns the driver of a name behind a socket. It does not connect yet.
type Open func(name, socket string) Driver

// Options configure a [Deleter].
type Options struct {
	API    API
	Open   Open                        // nil: a [csi.Driver]
	Called func(driver, result string) // counts a call of a driver
	// Refused returns why the gate refuses an action now; "" if it does not. begun is true for the rest of a
	// volume's deletion, after the driver's call.
	Refused func(a gc.Action, begun bool) string
	// Turn calls do, which sends requests one after another, when one more request may be in flight; nil: at
	// once. It returns the error of do, or why it was not called.
	Turn func(ctx context.Context, do func() error) error
}

// Deleter deletes volumes. It is safe for concurrent use.
type Deleter struct {
	o Options

	mu      sync.Mutex
	config  config.Volumes
	drivers map[string]Driver
	latest  *proof
}

// proofFor is how long live lists serve the volumes that are due together. Each volume itself is
// read again just before its deletion.
const proofFor = 5 * time.Second

// proof is a collector that has read live lists, for all volumes that are due together.
type proof struct {
	begun  time.Time
	listed chan struct{} // closed once the lists were read, or err is why they could not be
	err    error

	mu sync.Mutex
	c  *volumes.Collector
}

// New returns a Deleter that serves no driver until Configure.
func New(o Options) *Deleter {
	if o.Open == nil {
		o.Open = func(name, socket string) Driver { return csi.New(name, socket) }
	}
	if o.Turn == nil {
		o.Turn = func(_ context.Context, do func() error) error { return do() }
	}
	return &Deleter{o: o, drivers: map[string]Driver{}}
}

// Configure replaces the configuration. It closes connections to drivers that are not wanted any
// more.
func (v *Deleter) Configure(c config.Volumes) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.config, v.latest = c, nil
	for name, d := range v.drivers {
		if d.Socket() != c.Socket(name) {
			d.Close()
			delete(v.drivers, name)
		}
	}
}

// Close ends all connections.
func (v *Deleter) Close() { v.Configure(config.Volumes{}) }

// driver returns the driver of a name, and the rules of the policy; nil if that driver is not
// configured.
func (v *Deleter) driver(name string) (Driver, volumes.Config) {
	v.mu.Lock()
	defer v.mu.Unlock()
	socket := v.config.Socket(name)
	if socket == "" {
		return nil, volumes.Config{}
	}
	d := v.drivers[name]
	if d == nil {
		d = v.o.Open(name, socket)
		v.drivers[name] = d
	}
	return d, v.config.Policy()
}

// errKept is the error if the policy keeps the volume.
type errKept struct{ why gc.Reason }

func (e errKept) Error() string { return "kept: a live read says " + string(e.why) }

// Delete has the driver delete the data of a PersistentVolume, and then deletes the object. asked
// reports whether the driver was called: whatever it answered, it may have deleted the data.
func (v *Deleter) Delete(ctx context.Context, a gc.Action) (out metadata.Outcome, asked bool) {
	began := time.Now()
	defer func() { out.Took = time.Since(began) }()
	driver, rules := v.driver(a.Driver)
	if driver == nil {
		return metadata.Outcome{Result: gc.Conflict, Err: errors.New("kept: the driver is no longer configured")}, false
	}
	if err := driver.Ready(ctx); err != nil {
		v.o.Called(a.Driver, callResult(err))
		return metadata.Outcome{Result: gc.TooMany, Err: err}, false
	}
	live, secrets, err := v.prove(ctx, a, rules)
	var kept errKept
	switch {
	case errors.As(err, &kept):
		return metadata.Outcome{Result: gc.Conflict, Err: err}, false
	case err != nil:
		return metadata.Outcome{Err: err}, false
	}
	if why := v.o.Refused(a, false); why != "" || ctx.Err() != nil {
		return metadata.Outcome{Result: gc.Conflict, Err: fmt.Errorf("kept: %s by now", why)}, false
	}
	err = driver.DeleteVolume(ctx, live.Handle, secrets)
	v.o.Called(a.Driver, callResult(err))
	if err != nil {
		return metadata.Outcome{Result: resultOf(err), Err: err}, true
	}
	return v.finish(ctx, a, live), true
}

// resultOf returns the result for an error of a driver. TooMany does not concern the volume itself.
func resultOf(err error) gc.Result {
	switch {
	case errors.Is(err, csi.ErrUnavailable), errors.Is(err, csi.ErrOther):
		return gc.TooMany
	case errors.Is(err, csi.ErrNotFound), errors.Is(err, csi.ErrRefused):
		return gc.Forbidden
	}
	return gc.Failed
}

// finish deletes the PersistentVolume after its data was deleted. It removes the provisioner's
// finalizer, and no other. If a user has deleted the object already, it may be gone with its
// finalizer.
func (v *Deleter) finish(ctx context.Context, a gc.Action, live volumes.Live) metadata.Outcome {
	del := a
	del.Verb, del.Policy = gc.Delete, gc.Background
	if live.Finalizer >= 0 {
		off := a
		off.Verb, off.Finalizer, off.Index = gc.RemoveFinalizer, volumes.Finalizer, live.Finalizer
		out := v.do(ctx, a, off)
		if out.Result != gc.Done || out.Object == nil {
			return unthrottled(out)
		}
		del.ResourceVersion = out.Object.ResourceVersion
	}
	out := v.do(ctx, a, del)
	if live.Finalizer >= 0 && out.Result == gc.Gone {
		out.Result = gc.Done
	}
	return unthrottled(out)
}

// do sends a request that ends a volume's deletion, unless the gate refuses that deletion by now. Then the
// object stays, and the driver is asked again when the gate admits it: for a driver, a volume that does not
// exist is deleted.
func (v *Deleter) do(ctx context.Context, volume, a gc.Action) (out metadata.Outcome) {
	if err := v.o.Turn(ctx, func() error {
		if why := v.o.Refused(volume, true); why != "" {
			return fmt.Errorf("the data was deleted, the object is kept: %s by now", why)
		}
		out = v.o.API.Do(ctx, a, false)
		return out.Err
	}); err != nil {
		out.Err = err
	}
	return out
}

// unthrottled turns TooMany in an outcome of the API server into Failed. Callers treat TooMany as
// an answer of the driver.
func unthrottled(out metadata.Outcome) metadata.Outcome {
	if out.Result == gc.TooMany {
		out.Result = gc.Failed
	}
	return out
}

// listed are the types that are listed live, in this order: the volumes themselves last.
var listed = []struct {
	gc.Type
	fields metadata.Fields
}{
	{gc.Type{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment", Resource: "volumeattachments"}, fields.Attachment},
	{gc.Type{APIVersion: "v1", Kind: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", Namespaced: true}, fields.Claim},
	{gc.Type{APIVersion: "v1", Kind: "PersistentVolume", Resource: "persistentvolumes"}, fields.Volume},
}

// lists returns live lists that are younger than proofFor. If there are none, this call reads them,
// and concurrent calls wait for it.
func (v *Deleter) lists(ctx context.Context, rules volumes.Config) (*proof, error) {
	v.mu.Lock()
	p := v.latest
	ask := p == nil || time.Since(p.begun) >= proofFor
	if ask {
		p = &proof{begun: time.Now(), listed: make(chan struct{}), c: volumes.New(rules)}
		v.latest = p
		time.AfterFunc(proofFor, func() { v.forget(p) }) // in a large cluster they are large
	}
	v.mu.Unlock()
	if !ask {
		select {
		case <-p.listed:
			return p, p.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer close(p.listed)
	if p.err = v.o.Turn(ctx, func() error { return v.read(ctx, p.c) }); p.err != nil {
		v.forget(p)
		return nil, p.err
	}
	return p, nil
}

// read gives a collector live lists.
func (v *Deleter) read(ctx context.Context, c *volumes.Collector) error {
	for _, t := range listed {
		if err := v.o.API.ListFields(ctx, t.Type, metadata.Selection{}, t.fields, func(o gc.Object, fields any) error {
			c.Observe(time.Time{}, t.Type, o, fields)
			return nil
		}); err != nil {
			return err
		}
		c.Synced(time.Time{}, t.Type)
	}
	return nil
}

// forget drops lists that no more volumes are to be judged by.
func (v *Deleter) forget(p *proof) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.latest == p {
		v.latest = nil
	}
}

// prove checks by live reads that nothing speaks against a deletion, and reads what the deletion
// needs. It applies the collector's own rules to live lists. The error is an errKept if a rule
// keeps the volume.
func (v *Deleter) prove(ctx context.Context, a gc.Action, rules volumes.Config) (live volumes.Live, secrets map[string]string, err error) {
	proof, err := v.lists(ctx, rules)
	if err != nil {
		return live, nil, err
	}
	now, known := v.o.API.Time(time.Now())
	if !known {
		return live, nil, errors.New("the API server's time is not known")
	}
	proof.mu.Lock()
	live, why, ok := proof.c.Confirm(now, a)
	proof.mu.Unlock()
	if !ok {
		return live, nil, errKept{why}
	}
	err = v.o.Turn(ctx, func() error {
		if err := v.unused(ctx, live); err != nil {
			return err
		}
		if live.Secret.Name != "" {
			at := gc.Coordinates{APIVersion: "v1", Kind: "Secret", Resource: "secrets", Namespace: live.Secret.Namespace, Name: live.Secret.Name}
			got, err := v.o.API.ReadFields(ctx, at, true, fields.Secret)
			if err != nil {
				return fmt.Errorf("read the deletion secret: %w", err)
			}
			secrets = got.(map[string]string)
		}
		return v.unchanged(ctx, a)
	})
	return live, secrets, err
}

// unused checks that no Pod uses the claim. A missing claim is no proof of that: if its finalizer
// was removed by force, its Pod may still run. Missing attachments are none either: drivers that do
// not attach have none.
func (v *Deleter) unused(ctx context.Context, live volumes.Live) error {
	return v.o.API.ListFields(ctx, gc.Pods, metadata.Selection{Namespace: live.Namespace}, fields.Uses, func(_ gc.Object, f any) error {
		if f.(volumes.Uses).Claim(live.Claim) {
			return errKept{volumes.InUse}
		}
		return nil
	})
}

// unchanged checks, at the last moment, that the object has not changed and that its claim is
// absent.
func (v *Deleter) unchanged(ctx context.Context, a gc.Action) error {
	claim, err := v.o.API.Read(ctx, a.Owner, true)
	switch {
	case err != nil:
		return err
	case claim.State == gc.Exists:
		return errKept{volumes.ClaimThere}
	case claim.State != gc.Absent:
		return errors.New("it is not known whether its claim is there")
	}
	now, err := v.o.API.Read(ctx, a.Object, false)
	if err != nil {
		return err
	}
	if now.State != gc.Exists || now.Object.UID != a.Object.UID || now.Object.ResourceVersion != a.ResourceVersion {
		return errKept{volumes.Changed}
	}
	return nil
}

// callResults are the results of driver calls in the metric, by error.
var callResults = []struct {
	err  error
	name string
}{
	{csi.ErrOther, "other_driver"}, {csi.ErrUnavailable, "unavailable"}, {csi.ErrNotFound, "not_found"}, {csi.ErrRefused, "refused"},
}

// callResult returns the result of a driver call in the metric: the name of its error, or done
// without one.
func callResult(err error) string {
	if err == nil {
		return "done"
	}
	for _, r := range callResults {
		if errors.Is(err, r.err) {
			return r.name
		}
	}
	return "failed"
}
