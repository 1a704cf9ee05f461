package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/policy/gc"
	"github.com/ebb-agent/ebb/policy/volumes"
	"github.com/ebb-agent/ebb/runtime/csi"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
	"github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// driver is one in memory.
type driver struct {
	mu     sync.Mutex
	calls  []string
	ready  func() error                             // nil: it is
	delete func(context.Context) error              // nil: it does
	with   func(handle string, s map[string]string) // nil: whatever
}

func (d *driver) note(call string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, call)
}

func (d *driver) called() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(slices.Compact(slices.Clone(d.calls)), " ")
}

func (d *driver) Ready(context.Context) error {
	if d.note("ready"); d.ready != nil {
		return d.ready()
	}
	return nil
}

func (d *driver) DeleteVolume(ctx context.Context, handle string, s map[string]string) error {
	if d.note("delete:" + handle); d.with != nil {
		d.with(handle, s)
	}
	if d.delete != nil {
		return d.delete(ctx)
	}
	return nil
}

func (d *driver) Socket() string { return "/s" }
func (d *driver) Close()         { d.note("close") }

// withVolumes has the API server serve all that bears on them.
func withVolumes(f *fake) {
	f.types = append(f.types, gc.Type{APIVersion: "v1", Kind: "PersistentVolume", Resource: "persistentvolumes"},
		gc.Type{APIVersion: "v1", Kind: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", Namespaced: true},
		gc.Type{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment", Resource: "volumeattachments"},
		gc.Type{APIVersion: "storage.k8s.io/v1", Kind: "CSINode", Resource: "csinodes"}, gc.Type{APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver", Resource: "csidrivers"},
		gc.Type{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass", Resource: "storageclasses"})
}

func servingVolumes(c *config.Config) {
	c.Collectors.Volumes.Mode = config.Enforce
	c.Collectors.Volumes.Drivers = []config.Driver{{Name: "d.example.com", Socket: "/s"}}
}

// volume makes one that is to go.
func (b *fixture) volume(name string) gc.Object {
	v := volumes.Volume{Phase: "Released", Policy: "Delete", Driver: "d.example.com", ProvisionedBy: "d.example.com", Handle: "h-" + name, Since: time.Now().Add(-48 * time.Hour)}
	v.Claim.Namespace, v.Claim.Name, v.Claim.UID = "a", "claim-"+name, "old"
	b.api.mu.Lock()
	b.api.fields["uid-"+name] = v
	b.api.mu.Unlock()
	return b.api.put(gc.Object{APIVersion: "v1", Kind: "PersistentVolume", Name: name, UID: "uid-" + name, Finalizers: []string{"kubernetes.io/pv-protection", volumes.Finalizer}})
}

func (b *fixture) putClaim(name, uid string) {
	b.api.mu.Lock()
	b.api.fields[uid] = volumes.Claim{}
	b.api.mu.Unlock()
	b.api.put(gc.Object{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "a", Name: name, UID: uid})
}

// inVolumes runs a controller that has one driver.
func inVolumes(t *testing.T, d *driver, configure func(*config.Config), test func(b *fixture)) {
	inBubble(t, func(c *config.Config) {
		servingVolumes(c)
		if configure != nil {
			configure(c)
		}
	}, withVolumes, func(b *fixture) {
		b.driver = d
		test(b)
	})
}

// TestVolumes: the data goes, then the provisioner's finalizer, then the object.
func TestVolumes(t *testing.T) {
	d := &driver{}
	inVolumes(t, d, nil, func(b *fixture) {
		v := b.volume("v")
		b.after(time.Second)
		b.want("calls", d.called(), "ready delete:h-v")
		now := b.api.get(v)
		b.want("finalizers", now.Finalizers, []string{"kubernetes.io/pv-protection"})
		b.want("terminating", now.Terminating, true)
		last := b.c.gate.Decisions()[0]
		b.want("requests on their way", b.c.requests.limit.InFlight()+b.c.collectors.inFlight, 0)
		b.want("decision", last.Collector+" "+last.Verb+" "+last.Result+" "+last.Owner.Name+" "+last.Root.Name, "volumes delete-volume done claim-v volumes")
		b.after(time.Hour)
		b.want("calls", d.called(), "ready delete:h-v")
	})
	b := d.called()
	if !strings.HasSuffix(b, " close") {
		t.Errorf("calls: %s", b)
	}
}

// TestOneProofForAll: volumes that are due together share live lists; a later one has its own.
func TestOneProofForAll(t *testing.T) {
	d := &driver{delete: func(context.Context) error { time.Sleep(100 * time.Millisecond); return nil }}
	inVolumes(t, d, nil, func(b *fixture) {
		lists := func() string {
			b.api.mu.Lock()
			defer b.api.mu.Unlock()
			return fmt.Sprint(b.api.lists["PersistentVolume"], b.api.lists["PersistentVolumeClaim"], b.api.lists["VolumeAttachment"])
		}
		b.configure(func(c *config.Config) { servingVolumes(c); c.Collectors.Volumes.Mode = config.Observe })
		var list []gc.Object
		for i := range 40 {
			list = append(list, b.volume(fmt.Sprint("v", i)))
		}
		b.after(time.Second)
		b.configure(servingVolumes) // with all of them due
		b.after(4 * time.Second)
		for _, v := range list {
			if now := b.api.get(v); now == nil || !now.Terminating {
				b.t.Errorf("%s: %+v", v.Name, now)
			}
		}
		b.want("lists", lists(), "1 1 1")
		b.after(5 * time.Second)
		b.volume("later")
		b.after(time.Second)
		b.want("lists", lists(), "2 2 2")
		// A list that cannot be read is no proof for anybody, and the next one is asked for anew.
		b.after(5 * time.Second)
		b.api.fault("VolumeAttachment", fmt.Errorf("forbidden"))
		failed := b.volume("failed")
		b.after(10 * time.Second)
		b.want("terminating", b.api.get(failed).Terminating, false)
		b.api.fault("VolumeAttachment", nil)
		b.after(time.Hour)
		b.want("terminating", b.api.get(failed).Terminating, true)
	})
}

// elsewhere is a set in a namespace without claims.
func elsewhere(name string) gc.Object {
	o := set(name)
	o.Namespace = "b"
	return o
}

// TestProofTakesItsTurn: the live lists are a request among others. They wait for room, and an API server that
// wants fewer requests has everything slowed down.
func TestProofTakesItsTurn(t *testing.T) {
	d := &driver{}
	inVolumes(t, d, func(c *config.Config) { c.Concurrency = config.Concurrency{Start: 1, Max: 1} }, func(b *fixture) {
		b.api.list = func() error { time.Sleep(10 * time.Second); return nil }
		v := b.volume("v")
		b.after(time.Second)
		b.want("requests", b.c.requests.limit.InFlight(), 1)
		owner := b.api.put(elsewhere("s"))
		pods := b.pods(owner, 1)
		b.api.remove(owner, gc.Background)
		b.after(time.Second)
		b.want("Pods left while the lists are read", b.left(pods), 1)
		b.after(time.Minute)
		b.want("Pods left", b.left(pods), 0)
		b.want("terminating", b.api.get(v).Terminating, true)
		b.want("requests", b.c.requests.limit.InFlight()+b.c.collectors.inFlight, 0)

		busy := fault.Refused("list", http.StatusTooManyRequests, fault.Status{}, nil)
		busy.RetryAfter = time.Minute
		b.api.list = func() error { return busy }
		b.volume("w")
		b.after(time.Second)
		b.metric("requests_throttled_total", 1)
		b.api.list = nil
		owner = b.api.put(elsewhere("t"))
		pods = b.pods(owner, 1)
		b.api.remove(owner, gc.Background)
		b.after(30 * time.Second)
		b.want("Pods left while the API server wants fewer requests", b.left(pods), 1)
		b.after(time.Minute)
		b.want("Pods left", b.left(pods), 0)
		b.want("requests", b.c.requests.limit.InFlight()+b.c.collectors.inFlight, 0)
	})
}

// TestVolumeTakesItsTurn: the requests before and after a driver's call are requests among others, too.
func TestVolumeTakesItsTurn(t *testing.T) {
	d := &driver{}
	one := func(c *config.Config) { c.Concurrency = config.Concurrency{Start: 1, Max: 1} }
	inVolumes(t, d, one, func(b *fixture) {
		b.after(time.Second)
		b.api.hang = 10 * time.Second // each change
		b.volume("v")
		b.after(5 * time.Second)
		b.want("calls", d.called(), "ready delete:h-v")
		b.metric("requests_in_flight", 1) // the finalizer
		b.after(10 * time.Second)
		b.metric("requests_in_flight", 1) // the object
		b.after(10 * time.Second)
		b.metric("requests_in_flight", 0)
	})
	busy := fault.Refused("patch", http.StatusTooManyRequests, fault.Status{}, nil)
	busy.RetryAfter = time.Minute
	for name, fail := range map[string]func(b *fixture){
		"read": func(b *fixture) { b.api.fault("Pod", busy) },
		"write": func(b *fixture) {
			b.api.do = func(gc.Action) *metadata.Outcome { return &metadata.Outcome{Result: gc.TooMany, Err: busy} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVolumes(t, &driver{}, one, func(b *fixture) {
				b.after(time.Second)
				fail(b)
				v := b.volume("v")
				b.after(time.Second)
				b.metric("requests_throttled_total", 1)
				b.api.do = nil
				b.api.fault("Pod", nil)
				b.after(10 * time.Minute)
				b.want("terminating", b.api.get(v).Terminating, true)
			})
		})
	}
}

// TestProofWaitsForRoom: the live lists wait while all requests are in flight.
func TestProofWaitsForRoom(t *testing.T) {
	d := &driver{}
	inVolumes(t, d, func(c *config.Config) { c.Concurrency = config.Concurrency{Start: 1, Max: 1} }, func(b *fixture) {
		var begun atomic.Bool
		b.api.list = func() error { begun.Store(true); return nil }
		owner := b.api.put(elsewhere("s"))
		b.pods(owner, 1)
		b.api.hang = 10 * time.Second
		d.ready = func() error { b.api.remove(owner, gc.Background); time.Sleep(time.Second); return nil }
		b.volume("v")
		b.after(5 * time.Second)
		b.want("listed", begun.Load(), false)
		b.after(time.Minute)
		b.want("listed", begun.Load(), true)
	})
}

// TestPauseDuringACall: nothing is sent after a pause, although the driver answers after it. The volume goes
// on when the pause ends.
func TestPauseDuringACall(t *testing.T) {
	d := &driver{}
	inVolumes(t, d, nil, func(b *fixture) {
		once := sync.Once{}
		d.delete = func(context.Context) error { once.Do(b.pauseAtOnce); return nil }
		v := b.volume("v")
		b.after(time.Hour)
		b.want("version", b.api.get(v).ResourceVersion, v.ResourceVersion)
		b.want("requests", b.c.gate.Pause(b.t.Context()), 0)
		b.want("resumed", b.c.Resume(b.t.Context()), "")
		b.after(time.Hour)
		b.want("calls", d.called(), "ready delete:h-v ready delete:h-v")
		b.want("terminating", b.api.get(v).Terminating, true)
	})
}

// TestEndDuringACall: a controller that ends finishes a volume whose data its driver has deleted.
func TestEndDuringACall(t *testing.T) {
	d := &driver{}
	inVolumes(t, d, nil, func(b *fixture) {
		d.delete = func(context.Context) error { b.c.gate.Close(); return nil }
		v := b.volume("v")
		b.after(time.Hour)
		b.want("calls", d.called(), "ready delete:h-v")
		b.want("terminating", b.api.get(v).Terminating, true)
	})
}

// TestVolumesWait: what waits has no driver called, whatever the collector's mode.
func TestVolumesWait(t *testing.T) {
	for name, configure := range map[string]func(*config.Config){
		"the controller observes": func(c *config.Config) { c.Mode = config.Observe },
		"the collector observes":  func(c *config.Config) { c.Collectors.Volumes.Mode = config.Observe },
		"paused":                  func(c *config.Config) { c.Paused = true },
		"namespace excluded":      func(c *config.Config) { c.Exclude.Namespaces = []string{"a"} },
		"type excluded":           func(c *config.Config) { c.Exclude.Types = []string{"persistentvolumes"} },
		"off":                     func(c *config.Config) { c.Collectors.Volumes.Mode = config.Off },
	} {
		t.Run(name, func(t *testing.T) {
			d := &driver{}
			inVolumes(t, d, configure, func(b *fixture) {
				v := b.volume("v")
				b.after(time.Hour)
				b.want("calls", d.called(), "")
				b.want("version", b.api.get(v).ResourceVersion, v.ResourceVersion)
			})
		})
	}
	t.Run("etcd restored", func(t *testing.T) {
		d := &driver{}
		inVolumes(t, d, nil, func(b *fixture) {
			b.restore()
			b.volume("v")
			b.after(time.Hour)
			b.want("calls", d.called(), "")
			b.want("confirmed", b.c.ConfirmRestore(b.t.Context()), true)
			b.after(time.Minute)
			b.want("calls", d.called(), "ready delete:h-v")
		})
	})
}

// TestVolumesLateNews: what happens between the decision and the call keeps the data.
func TestVolumesLateNews(t *testing.T) {
	for name, happens := range map[string]func(b *fixture){
		"a claim of another life": func(b *fixture) { b.putClaim("claim-v", "new") },
		"a claim of this life":    func(b *fixture) { b.putClaim("claim-v", "old") },
		"another has the handle": func(b *fixture) {
			b.api.mu.Lock()
			b.api.fields["uid-w"] = volumes.Volume{Phase: "Bound", Driver: "d.example.com", Handle: "h-v"}
			b.api.mu.Unlock()
			b.api.put(gc.Object{APIVersion: "v1", Kind: "PersistentVolume", Name: "w", UID: "uid-w"})
		},
		"attached": func(b *fixture) {
			b.api.mu.Lock()
			b.api.fields["uid-a"] = volumes.Attachment{Volume: "v", Node: "n"}
			b.api.mu.Unlock()
			b.api.put(gc.Object{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment", Name: "a", UID: "uid-a"})
		},
		"it changed": func(b *fixture) {
			o := b.api.get(gc.Object{APIVersion: "v1", Kind: "PersistentVolume", Name: "v", UID: "uid-v"})
			b.api.mu.Lock()
			v := b.api.fields["uid-v"].(volumes.Volume)
			v.Policy = "Retain"
			b.api.fields["uid-v"] = v
			b.api.mu.Unlock()
			b.api.put(*o)
		},
		"paused":                    func(b *fixture) { b.pauseAtOnce() },
		"attachments are forbidden": func(b *fixture) { b.api.fault("VolumeAttachment", fmt.Errorf("forbidden")) },
		"Pods are forbidden":        func(b *fixture) { b.api.fault("Pod", fmt.Errorf("forbidden")) },
		"etcd restored":             func(b *fixture) { b.c.gate.OnRestore("test") },
		"the lease is lost":         func(b *fixture) { b.c.Guard(func() bool { return false }) },
		"used by a Pod": func(b *fixture) {
			b.api.mu.Lock()
			b.api.fields["uid-p"] = volumes.Uses{Claims: []string{"claim-v"}}
			b.api.mu.Unlock()
			b.api.put(gc.Object{APIVersion: "v1", Kind: "Pod", Namespace: "a", Name: "p", UID: "uid-p"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, once := &driver{}, sync.Once{}
			inVolumes(t, d, nil, func(b *fixture) {
				d.ready = func() error { once.Do(func() { happens(b) }); return nil }
				v := b.volume("v")
				b.after(10 * time.Second)
				if strings.Contains(d.called(), "delete") || !strings.Contains(d.called(), "ready") {
					t.Errorf("calls: %s", d.called())
				}
				if now := b.api.get(v); now == nil || now.Terminating || len(now.Finalizers) != 2 {
					t.Errorf("%+v", now)
				}
			})
		})
	}
}

// TestVolumesHang: a driver that hangs costs nobody anything but its own volumes, and ends
// with the controller.
func TestVolumesHang(t *testing.T) {
	d := &driver{delete: func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("%w: %w", csi.ErrUnavailable, ctx.Err())
	}}
	inVolumes(t, d, func(c *config.Config) { c.Concurrency = config.Concurrency{Start: 1, Max: 1} }, func(b *fixture) {
		var list []gc.Object
		for i := range 10 {
			list = append(list, b.volume(fmt.Sprint("v", i)))
		}
		b.after(time.Minute)
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 20)
		b.api.remove(owner, gc.Background)
		b.after(10 * time.Second)
		b.want("pods left", b.left(pods), 0)
		b.want("volumes left", b.left(list), 10)
		b.want("requests", b.c.requests.limit.InFlight(), 0)
		b.want("on their way", b.c.Pause(b.t.Context()), 4)
	})
}
