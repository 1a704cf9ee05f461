package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

const (
	monkeyTime  = 25 * time.Second
	monkeySeed  = 20260
	monkeyNames = 14

	// settled is how long an image must have had its reason to stay before
	// losing it counts. Nobody can close the moment between the last look at an
	// image and its removal: the runtime's API has no such condition.
	settled = 2 * time.Second
)

// monkey plays with a node, and knows which images must stay.
type monkey struct {
	*fixture
	random     *rand.Rand
	pool       []node.Image
	containers []occupant
	since      map[string]time.Time // images that must stay, and since when
	kept       map[string]bool      // of them, those tagged so that a rule keeps them
	cut        map[string]bool      // images whose latest import failed, perhaps in the middle of a layer
	had        []string             // on the node at the latest check
	vanished   int                  // images that were there at one check and not at the next
	kills      int                  // of the agent or containerd: each can cost one line of the log
	done       map[string]int
}

type occupant struct {
	image string
	*node.Container
}

// TestMonkey does anything that may happen on a node, in random order, while
// the agent works. Whatever happens, no image goes that should stay, and none is
// there by half in the end.
func TestMonkey(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, flavor node.Flavor) {
		b := newFixture(t, flavor)
		b.config.Images.Keep = []string{prefix + "kept/*"}
		b.config.Images.MinimumAge = config.Duration(3 * time.Second) // an import takes its time
		m := &monkey{
			fixture: b, random: rand.New(rand.NewPCG(monkeySeed, uint64(len(flavor)))), done: make(map[string]int),
			since: make(map[string]time.Time), kept: make(map[string]bool), cut: make(map[string]bool),
		}
		for i := range monkeyNames {
			image := plain(fmt.Sprint("m", i), layerBytes)
			if i%3 == 0 {
				image = sharing(fmt.Sprint("m", i), fmt.Sprint("s", i%2), layerBytes)
			}
			m.pool = append(m.pool, image)
		}
		b.start()
		for end := time.Now().Add(monkeyTime); time.Now().Before(end); {
			m.step()
			m.check()
		}
		m.calmDown()
		t.Logf("done: %v; %d images removed", m.done, len(b.removals(0)))
	})
}

func (m *monkey) step() {
	m.Helper()
	pick := m.random.IntN(100)
	for _, act := range []struct {
		name  string
		share int // of 100
		do    func()
	}{
		{"import", 28, m.bring}, {"use", 20, m.useOnce}, {"sleep", 10, m.sleep}, {"stop", 7, m.stopOne},
		{"delete", 9, m.deleteOne}, {"tag", 3, m.keepOne}, {"fill", 12, m.fillSome},
		{"unfill", 5, func() { m.must(m.node.Unfill("fill")) }},
		{"kill containerd", 3, m.killContainerd}, {"kill agent", 3, m.killAgent},
	} {
		if pick -= act.share; pick < 0 {
			m.done[act.name]++
			act.do()
			return
		}
	}
}

// present returns the images of the pool that are on the node.
func (m *monkey) present() []string {
	m.Helper()
	have := m.onNode()
	var names []string
	for _, i := range m.pool {
		if id, ok := m.scenario.ids[nameOf(i)]; ok && slices.Contains(have, id) {
			names = append(names, nameOf(i))
		}
	}
	return names
}

// anyOf picks an image; "" if there is none.
func (m *monkey) anyOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[m.random.IntN(len(names))]
}

func (m *monkey) bring() {
	m.Helper()
	i := m.pool[m.random.IntN(len(m.pool))]
	id, err := m.node.Import(m.ctx, node.CRINamespace, i)
	if m.cut[nameOf(i)] = err != nil; m.expected(err) {
		return
	}
	m.must(err)
	m.scenario.images[nameOf(i)], m.scenario.ids[nameOf(i)] = i, id
}

// expected errors come from an image that goes while something is made of it,
// and from a disk that a test has filled.
func (m *monkey) expected(err error) bool {
	return errdefs.IsNotFound(err) || err != nil && strings.Contains(err.Error(), "no space left on device")
}

// run starts a container, unless the image goes at the same moment.
func (m *monkey) run(args ...string) (occupant, bool) {
	m.Helper()
	name := m.anyOf(m.present())
	if name == "" {
		return occupant{}, false
	}
	m.runs++
	c, err := m.node.Run(m.ctx, node.RunSpec{ID: fmt.Sprintf("c%d", m.runs), Image: ref(name), Args: args})
	if m.expected(err) {
		return occupant{}, false
	}
	m.must(err)
	return occupant{name, c}, true
}

func (m *monkey) useOnce() {
	m.Helper()
	if o, ok := m.run("true"); ok {
		_, err := o.Wait(m.ctx)
		m.must(err)
		m.must(o.Delete(m.ctx))
	}
}

func (m *monkey) sleep() {
	m.Helper()
	if len(m.containers) >= 4 {
		return
	}
	if o, ok := m.run(); ok {
		m.containers = append(m.containers, o)
		m.protect(o.image)
	}
}

func (m *monkey) protect(name string) {
	if _, ok := m.since[name]; !ok {
		m.since[name] = time.Now()
	}
}

// stopOne ends a container that stays, and holds its image as before.
func (m *monkey) stopOne() {
	m.Helper()
	if len(m.containers) > 0 {
		m.must(m.containers[m.random.IntN(len(m.containers))].Kill(m.ctx))
	}
}

func (m *monkey) deleteOne() {
	m.Helper()
	if len(m.containers) == 0 {
		return
	}
	n := m.random.IntN(len(m.containers))
	o := m.containers[n]
	m.containers = slices.Delete(m.containers, n, n+1)
	if !m.kept[o.image] && !slices.ContainsFunc(m.containers, func(other occupant) bool { return other.image == o.image }) {
		delete(m.since, o.image) // from now on it may go
	}
	m.must(o.Delete(m.ctx))
}

// keepOne gives an image a second name, which a rule keeps.
func (m *monkey) keepOne() {
	m.Helper()
	name := m.anyOf(m.present())
	if name == "" || len(m.kept) >= 2 {
		return
	}
	ctx := namespaces.WithNamespace(m.ctx, node.CRINamespace)
	store := m.node.Client().ImageService()
	have, err := store.Get(ctx, ref(name))
	if err == nil {
		_, err = store.Create(ctx, images.Image{Name: prefix + "kept/" + name + ":1", Target: have.Target})
	}
	if errdefs.IsNotFound(err) || errdefs.IsAlreadyExists(err) {
		return // it went at this moment, or has been kept before
	}
	m.must(err)
	m.kept[name] = true
	m.protect(name)
}

func (m *monkey) fillSome() {
	m.Helper()
	u, err := m.node.Usage()
	m.must(err)
	if u.UsedPercent < 88 {
		m.must(m.node.Fill("fill", int64(1+m.random.IntN(25))*mib/2))
	}
}

func (m *monkey) killContainerd() {
	m.Helper()
	m.kills++
	m.must(m.node.Kill())
	m.must(m.node.Restart(m.ctx))
}

func (m *monkey) killAgent() {
	m.Helper()
	m.kills++
	m.kill()
	m.startUnready()
}

// check looks for images that went although they had to stay.
func (m *monkey) check() {
	m.Helper()
	have := m.present()
	for _, name := range m.had {
		if !slices.Contains(have, name) {
			m.vanished++
		}
	}
	m.had = have
	for name, since := range m.since {
		if slices.Contains(have, name) {
			continue
		}
		if time.Since(since) > settled+patienceOfCheck {
			m.Errorf("image %s is gone; it had to stay since %v", name, since.Format(time.TimeOnly))
		}
		delete(m.since, name) // it went at the very moment
		delete(m.kept, name)
	}
}

// patienceOfCheck is what may pass between a removal and the check that sees
// it: the longest step.
const patienceOfCheck = 2 * time.Second

// calmDown leaves the agent alone with a full disk, and looks at what it made
// of it.
func (m *monkey) calmDown() {
	m.Helper()
	mark := m.journal.mark()
	m.fill(86)
	m.eventually("a low disk or a hold", func() error {
		low := m.notLow()
		if low == nil {
			return nil
		}
		e, err := m.images()
		if err != nil {
			return errors.Join(low, err)
		}
		s, err := m.status()
		if err != nil {
			return errors.Join(low, err)
		}
		// Below the high threshold a hold ends with the next look.
		held := slices.ContainsFunc(m.journal.since(mark, "reclaim run ended"), func(l agentrun.Line) bool { return l.Text("result") == "hold" })
		if hold := s.Filesystems[0].Hold; !held && (hold == nil || len(hold.HeldBy) == 0) {
			return fmt.Errorf("%w, and no hold", low)
		}
		for _, i := range e.Images {
			if i.Verdict == "remove" {
				return fmt.Errorf("%w, and %s is still to go", low, m.scenario.name(i.ID))
			}
		}
		return nil
	})
	m.awaitReady()
	m.check()
	removed := m.removals(0)
	for _, l := range removed {
		if reason := l.Text("reason"); reason != "threshold" {
			m.Errorf("%s was removed for %q", m.scenario.name(l.Text("image")), reason)
		}
	}
	if len(removed) == 0 {
		m.Error("nothing was ever removed: the test did nothing")
	}
	m.eventually("a reason for every image that went", func() error { // a line follows its removal
		if said := len(m.removals(0)); m.vanished > said+m.kills {
			return fmt.Errorf("%d images vanished, and the agent says why of %d", m.vanished, said)
		}
		return nil
	})
	ctx := namespaces.WithNamespace(context.WithoutCancel(m.ctx), node.CRINamespace)
	for _, o := range m.containers {
		if _, err := m.node.Client().LoadContainer(ctx, o.ID()); err != nil {
			m.Errorf("container %s: %v", o.ID(), err)
		}
	}
	m.stop()
	m.start() // what containerd kept of a view when it was killed goes at the next start, or ten minutes later
	m.stop()
	maps.DeleteFunc(m.cut, func(_ string, cut bool) bool { return !cut })
	m.checkWhole(slices.Collect(maps.Keys(m.cut))...)
}
