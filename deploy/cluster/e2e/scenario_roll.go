package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// touch is one run of a container: something was executed between begun and ended.
type touch struct{ begun, ended time.Time }

// load is the workload while the agent is replaced: one process at a time, of each image in turn.
// Neither the runtime nor Kubernetes reports these runs to the agent later.
type load struct {
	mu      sync.Mutex
	last    map[string]touch // latest run of each image
	runs    int
	without int // runs without a running agent
}

// roll replaces the agent by its next version. Images used while no agent runs are not used again,
// so their last use must be from that time.
func (b *fixture) roll() {
	b.provision("--images", filepath.Join(b.o.out, "load.tar"), "images")
	b.eventually("the agent to know the images", func() error {
		now, err := b.images()
		for i := range loadOnes {
			if err == nil && !now.has(loadImage(i)) {
				err = fmt.Errorf("%s", loadImage(i))
			}
		}
		return err
	})
	ctx, stop := context.WithCancel(b)
	defer stop()
	l := &load{last: map[string]touch{}}
	done := make(chan error, 1)
	go func() { done <- b.carry(ctx, l) }()
	err := attempt(b.replace)
	stop()
	must(errors.Join(err, <-done))
	b.compare(l)
}

func (b *fixture) replace() {
	b.notes.command("kubectl --namespace ebb-system set image daemonset/ebb-agent agent=" + nextImage)
	need(b.kubectl("--namespace", namespace, "set", "image", "daemonset/ebb-agent", "agent="+nextImage))
	b.rollout("daemonset/ebb-agent")
}

// carry runs containers until ctx is done: of the first half of the images while an agent answers,
// of the second half while none does.
func (b *fixture) carry(ctx context.Context, l *load) error {
	for ctx.Err() == nil {
		n, without := l.runs%(loadOnes/2), 0
		var ignored string
		if err := b.ask(agentHealth+"/healthz", &ignored); err != nil {
			n, without = n+loadOnes/2, 1
		}
		t := touch{begun: time.Now()}
		name := loadImage(n)
		if _, err := b.run("ctr", "--namespace", "k8s.io", "run", "--rm", name, fmt.Sprintf("load-%d", l.runs), "/bin/true"); err != nil {
			return err
		}
		// An agent that starts while a container ends may list it without receiving its end event.
		// The next look finds the container gone and records its own time as the end: in doubt, ebb
		// makes a use later.
		if gone := time.Now(); without == 1 && b.ask(agentHealth+"/healthz", &ignored) == nil {
			if err := attempt(func() { b.lookedAfter(gone) }); err != nil {
				return err
			}
		}
		t.ended = time.Now()
		l.mu.Lock()
		l.last[name], l.runs, l.without = t, l.runs+1, l.without+without
		l.mu.Unlock()
	}
	return nil
}

// lookedAfter waits until the agent has listed the containers after then.
func (b *fixture) lookedAfter(then time.Time) {
	b.eventually("the new agent to look", func() error {
		now, err := b.images()
		if err == nil && now.Store.Looked.Before(then) {
			err = fmt.Errorf("it looked at %v, before %v", now.Store.Looked, then)
		}
		return err
	})
}

// compare compares the last uses that the new agent reports with the runs.
func (b *fixture) compare(l *load) {
	if l.without < 2 {
		fail("only %d of %d containers ran while there was no agent", l.without, l.runs)
	}
	b.eventually("the agent to read the stamps", func() error {
		now, err := b.images()
		if err != nil {
			return err
		}
		var errs []error
		for name, t := range l.last {
			known := now.lastUsed(name, func(used *time.Time) {
				// The clocks of the kernel and of this process differ by less.
				const slack = 100 * time.Millisecond
				if used == nil || used.Before(t.begun.Add(-slack)) || used.After(t.ended.Add(slack)) {
					errs = append(errs, fmt.Errorf("%s: last used %v, but was from %v to %v", name, used, t.begun, t.ended))
				}
			})
			if !known {
				errs = append(errs, fmt.Errorf("%s: not known", name))
			}
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		b.notes.ok("%d containers of %d images ran meanwhile, %d of them while there was no agent: the last use of each image is right",
			l.runs, len(l.last), l.without)
		return nil
	})
}
