package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/drivers"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/agent/cluster/journal"
	"github.com/ebb-agent/ebb/policy/gc"
)

// fixture is a controller on a fake API server, in a bubble of synctest.
type fixture struct {
	t    *testing.T
	api  *fake
	c    *Controller
	log  strings.Builder
	stop context.CancelCauseFunc
	err  error
	kept *journal.Memory // the journal of orphaned owners
	done chan struct{}
	logs sync.Mutex
	// driver is the one of all volumes.
	driver *driver
}

// open the driver of a name.
func (b *fixture) open(string, string) drivers.Driver { return b.driver }

// pauseAtOnce pauses, and waits for nothing.
func (b *fixture) pauseAtOnce() {
	over, cancel := context.WithCancel(b.t.Context())
	cancel()
	b.c.Pause(over)
}

func (b *fixture) Write(p []byte) (int, error) {
	b.logs.Lock()
	defer b.logs.Unlock()
	return b.log.Write(p)
}

func (b *fixture) logged(text string) int {
	b.logs.Lock()
	defer b.logs.Unlock()
	return strings.Count(b.log.String(), text)
}

// inBubble runs a test with a controller that has listed everything.
func inBubble(t *testing.T, change func(*config.Config), prepare func(*fake), test func(*fixture)) {
	t.Helper()
	inBubbleWith(t, nil, change, prepare, test)
}

func inBubbleWith(t *testing.T, m gate.StateStore, change func(*config.Config), prepare func(*fake), test func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &fixture{t: t, api: newFake(), done: make(chan struct{})}
		if prepare != nil {
			prepare(b.api)
		}
		b.kept = b.api.kept
		cfg := enforcing()
		if change != nil {
			change(&cfg)
		}
		b.c = New(Options{Config: cfg, API: b.api, Metrics: NewMetrics(), State: m, Journal: b.kept, Machines: b.api.inventory, Driver: b.open, Log: slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		ctx, stop := context.WithCancelCause(t.Context())
		b.stop = stop
		go func() { defer close(b.done); b.err = b.c.Run(ctx) }()
		synctest.Wait()
		time.Sleep(time.Second)
		test(b)
		b.stop(nil)
		<-b.done
		if t.Failed() {
			t.Log(b.log.String())
		}
	})
}

// enforcing is the default configuration, but acts.
func enforcing() config.Config {
	c := config.Default()
	c.Mode = config.Enforce
	return c
}

// after lets time pass, and everything settle.
func (b *fixture) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func set(name string) gc.Object {
	return gc.Object{APIVersion: "apps/v1", Kind: "Set", Namespace: "a", Name: name}
}

// pods of an owner.
func (b *fixture) pods(owner gc.Object, n int) (list []gc.Object) {
	for i := range n {
		list = append(list, b.api.put(gc.Object{
			APIVersion: "v1", Kind: "Pod", Namespace: owner.Namespace, Name: fmt.Sprintf("%s-%d", owner.Name, i),
			Owners: []gc.Reference{{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Block: true}},
		}))
	}
	b.after(100 * time.Millisecond)
	return list
}

func (b *fixture) left(list []gc.Object) (n int) {
	for _, o := range list {
		if b.api.get(o) != nil {
			n++
		}
	}
	return n
}

func (b *fixture) want(what string, got, want any) {
	b.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// metric checks the value of a series without labels.
func (b *fixture) metric(name string, want float64) {
	b.t.Helper()
	families, err := b.c.metrics.Registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "ebb_controller_"+name {
			b.want(name, f.GetMetric()[0].GetGauge().GetValue()+f.GetMetric()[0].GetCounter().GetValue(), want)
			return
		}
	}
	b.t.Errorf("no metric %s", name)
}

// explain an object as people see it.
func (b *fixture) explain(o gc.Object) string {
	b.t.Helper()
	key := at(o)
	key.UID = o.UID
	x, err := b.c.Explain(b.t.Context(), key)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(x.Reason)
}

// configure takes the defaults over, changed.
func (b *fixture) configure(change func(*config.Config)) {
	b.t.Helper()
	c := enforcing()
	change(&c)
	b.want("configured", b.c.Configure(b.t.Context(), c), nil)
}

// serve other types from now on; a changed definition announces it.
func (b *fixture) serve(types ...gc.Type) {
	unlock := b.api.lock()
	b.api.types = types
	unlock()
	b.api.put(gc.Object{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: fmt.Sprint("d", b.api.version)})
}
