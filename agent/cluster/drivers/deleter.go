// Package drivers has CSI drivers delete volumes, each after all that speaks for it was read live.
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

// Driver deletes volumes: a [csi.Driver], or what tests put in its place.
type Driver interface {
	// Ready says whether it can: it is who it should be.
	Ready(ctx context.Context) error
	DeleteVolume(ctx context.Context, handle string, secrets map[string]string) error
	Socket() string
	Close()
}

// Open gives the driver of a name behind a socket. Nothing is connected yet.
type Open func(name, socket string) Driver

// Options are what a [Deleter] is made of.
type Options struct {
	API     API
	Open    Open                        // nil: a [csi.Driver]
	Called  func(driver, result string) // counts a call of a driver
	Refused func(gc.Action) string      // why the gate refuses an action by now; empty: it does not
}

// Deleter deletes volumes. Workers use it side by side.
type Deleter struct {
	o Options

	mu      sync.Mutex
	config  config.Volumes
	drivers map[string]Driver
	latest  *proof
}

// proofFor is how long live lists serve the volumes that are due together. What is read of each volume
// itself, just before its deletion, is its own.
const proofFor = 5 * time.Second

// proof is the collector of what live lists had, for all volumes that are due together.
type proof struct {
	begun  time.Time
	listed chan struct{} // closed when it is there, or err says why not
	err    error

	mu sync.Mutex
	c  *volumes.Collector
}

// New makes one that serves no driver until Configure.
func New(o Options) *Deleter {
	if o.Open == nil {
		o.Open = func(name, socket string) Driver { return csi.New(name, socket) }
	}
	return &Deleter{o: o, drivers: map[string]Driver{}}
}

// Configure takes other drivers. Connections to those that are not wanted any more end.
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

// driver of a name; nil if none is to be served by now.
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

// errKept is an outcome by which the volume stays for a reason of the policy's.
type errKept struct{ why gc.Reason }

func (e errKept) Error() string { return "kept: a live read says " + string(e.why) }

// Delete what a PersistentVolume stands for, then the object. asked says whether the
// driver was asked to: whatever it answered, it may have done so.
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
	if why := v.o.Refused(a); why != "" || ctx.Err() != nil {
		return metadata.Outcome{Result: gc.Conflict, Err: fmt.Errorf("kept: %s by now", why)}, false
	}
	err = driver.DeleteVolume(ctx, live.Handle, secrets)
	v.o.Called(a.Driver, callResult(err))
	if err != nil {
		return metadata.Outcome{Result: resultOf(err), Err: err}, true
	}
	return v.finish(ctx, a, live), true
}

// resultOf an error of a driver: TooMany says nothing of the volume.
func resultOf(err error) gc.Result {
	switch {
	case errors.Is(err, csi.ErrUnavailable), errors.Is(err, csi.ErrOther):
		return gc.TooMany
	case errors.Is(err, csi.ErrNotFound), errors.Is(err, csi.ErrRefused):
		return gc.Forbidden
	}
	return gc.Failed
}

// finish has the PersistentVolume go once its data has: the provisioner's finalizer is
// taken off, and no other. One that somebody deleted may go with that.
func (v *Deleter) finish(ctx context.Context, a gc.Action, live volumes.Live) metadata.Outcome {
	del := a
	del.Verb, del.Policy = gc.Delete, gc.Background
	if live.Finalizer >= 0 {
		off := a
		off.Verb, off.Finalizer, off.Index = gc.RemoveFinalizer, volumes.Finalizer, live.Finalizer
		out := v.o.API.Do(ctx, off, false)
		if out.Result != gc.Done || out.Object == nil {
			return unthrottled(out)
		}
		del.ResourceVersion = out.Object.ResourceVersion
	}
	out := v.o.API.Do(ctx, del, false)
	if live.Finalizer >= 0 && out.Result == gc.Gone {
		out.Result = gc.Done
	}
	return unthrottled(out)
}

// unthrottled is an outcome of the API server's, whose wish for fewer requests is not the
// driver's.
func unthrottled(out metadata.Outcome) metadata.Outcome {
	if out.Result == gc.TooMany {
		out.Result = gc.Failed
	}
	return out
}

// listed are the types of which live lists are made: the volumes themselves last.
var listed = []struct {
	gc.Type
	fields metadata.Fields
}{
	{gc.Type{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment", Resource: "volumeattachments"}, fields.Attachment},
	{gc.Type{APIVersion: "v1", Kind: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", Namespaced: true}, fields.Claim},
	{gc.Type{APIVersion: "v1", Kind: "PersistentVolume", Resource: "persistentvolumes"}, fields.Volume},
}

// lists returns live lists that are younger than proofFor. If nobody has asked for them, this call does,
// and others wait for it.
func (v *Deleter) lists(ctx context.Context, rules volumes.Config) (*proof, error) {
	v.mu.Lock()
	p := v.latest
	ask := p == nil || time.Since(p.begun) >= proofFor
	if ask {
		p = &proof{begun: time.Now(), listed: make(chan struct{}), c: volumes.New(rules)}
		v.latest = p
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
	for _, t := range listed {
		p.err = v.o.API.ListFields(ctx, t.Type, metadata.Selection{}, t.fields, func(o gc.Object, fields any) error {
			p.c.Observe(time.Time{}, t.Type, o, fields)
			return nil
		})
		if p.err != nil {
			v.mu.Lock()
			if v.latest == p {
				v.latest = nil
			}
			v.mu.Unlock()
			return nil, p.err
		}
		p.c.Synced(time.Time{}, t.Type)
	}
	return p, nil
}

// prove that nothing that stands on the API server now speaks against a deletion, and read
// what it needs. The rules are the collector's own, applied to live lists.
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
	if err := v.unused(ctx, live); err != nil {
		return live, nil, err
	}
	if live.Secret.Name != "" {
		at := gc.Coordinates{APIVersion: "v1", Kind: "Secret", Resource: "secrets", Namespace: live.Secret.Namespace, Name: live.Secret.Name}
		got, err := v.o.API.ReadFields(ctx, at, true, fields.Secret)
		if err != nil {
			return live, nil, fmt.Errorf("read the deletion secret: %w", err)
		}
		secrets = got.(map[string]string)
	}
	return live, secrets, v.unchanged(ctx, a)
}

// unused says that no Pod uses the claim. One whose finalizer was removed by force may be
// gone while its Pod runs on; and of drivers that do not attach there is no attachment.
func (v *Deleter) unused(ctx context.Context, live volumes.Live) error {
	return v.o.API.ListFields(ctx, gc.Pods, metadata.Selection{Namespace: live.Namespace}, fields.Uses, func(_ gc.Object, f any) error {
		if f.(volumes.Uses).Claim(live.Claim) {
			return errKept{volumes.InUse}
		}
		return nil
	})
}

// unchanged says, at the last moment, that the object is as it was, and its claim not there.
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

// What came of a call of a driver, for the metric.
var callResults = []struct {
	err  error
	name string
}{
	{csi.ErrOther, "other_driver"}, {csi.ErrUnavailable, "unavailable"}, {csi.ErrNotFound, "not_found"}, {csi.ErrRefused, "refused"},
}

// callResult is the name of an error of a driver; done: it has none.
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
