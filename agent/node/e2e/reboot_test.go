package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/node"
)

const (
	// diskVariable names a block device in a machine that may be reset (tools/vm): this
	// test makes a filesystem on it.
	diskVariable = "EBB_TEST_DISK"
	rebootDir    = "/run/ebb-reboot"
	truthFile    = rebootDir + "/truth"
	// rebootLate is how long after the fact a use may be dated in an emulated machine.
	rebootLate = 2 * time.Second
)

// stay are the images that must not go, each for another reason. All but the last are
// the oldest.
var stay = []string{"kept", "wanted", "dead", "running"}

// TestReboot runs twice, on one disk: its first run resets the machine in the middle of a
// reclaim run and of containers that come and go, its second one takes up what is left.
// Nothing is written back before the reset but what somebody has synced. In the end it sets
// the machine's clock.
func TestReboot(t *testing.T) {
	disk := os.Getenv(diskVariable)
	if disk == "" {
		t.Skipf("SKIPPED: %s is not set: this machine is not to be reset", diskVariable)
	}
	if err := os.MkdirAll(rebootDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if unix.Mount(disk, rebootDir, "ext4", 0, "") == nil {
		afterReset(t)
		return
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", disk).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := unix.Mount(disk, rebootDir, "ext4", 0, ""); err != nil {
		t.Fatal(err)
	}
	beforeReset(t)
}

func rebootFixture(t *testing.T, start func(context.Context, node.Config) (*node.Node, error)) *fixture {
	n, err := start(t.Context(), node.Config{Name: "reboot", Base: rebootDir, SizeBytes: diskBytes, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &fixture{T: t, ctx: t.Context(), node: n, fs: "ext4", config: agentrun.ConfigFor(n), binary: binary, journal: newJournal(), scenario: newScenario()}
	t.Cleanup(b.clean)
	b.config.Images.MinimumAge = 0
	b.config.Images.HighThresholdPercent, b.config.Images.LowThresholdPercent = 80, 65
	b.config.Images.Keep = []string{ref("kept")}
	return b
}

func rebootImages() []node.Image {
	images := plains("a", 8)
	for _, name := range stay {
		images = append(images, plain(name, layerBytes))
	}
	return images
}

// beforeReset does not return if all is well.
func beforeReset(t *testing.T) {
	b := rebootFixture(t, node.Start)
	b.importImages(rebootImages()...)
	log, err := os.Create(truthFile)
	b.must(err)
	record := &truth{file: log}
	b.must(record.write(fact{At: time.Now(), IDs: b.scenario.ids}))
	b.startKubelet(ref("wanted"))
	b.start()
	run := func(id, image string, args ...string) *node.Container {
		begun := time.Now()
		b.must(record.write(fact{At: begun, Image: image}))
		c, err := b.node.Run(b.ctx, node.RunSpec{ID: id, Image: ref(image), Args: args})
		b.must(err)
		if len(args) > 0 {
			_, err := c.Wait(b.ctx)
			b.must(errors.Join(err, record.write(fact{At: time.Now(), Image: image, Begun: begun})))
		}
		b.scenario.used(image)
		return c
	}
	run("dead", "dead", "true")
	for n, image := range []string{"kept", "wanted", "a3", "a1", "a5", "a0", "a4", "a2", "a6", "a7"} {
		b.must(run(fmt.Sprint("use-", n), image, "true").Delete(b.ctx))
	}
	used := time.Now()
	run("running", "running")
	b.awaitOrder()
	b.awaitReason("wanted", "wanted")
	b.eventually("the state to be saved", func() error {
		info, err := os.Stat(filepath.Join(b.config.State.Directory, state.File))
		if err == nil && !info.ModTime().After(used) {
			err = errors.New("it was not since the last use")
		}
		return err
	})
	// As on any node but one that was reset within a minute of its pulls.
	unix.Sync()
	b.resetInRun(record)
}

// resetInRun makes the agent reclaim, beside containers that come and go, and resets the
// machine when the names of a second image have been taken away.
func (b *fixture) resetInRun(record *truth) {
	b.fill(float64(b.config.Images.HighThresholdPercent) - 1.5)
	u, err := b.node.Usage()
	b.must(err)
	events, failed := b.node.Client().Subscribe(b.ctx, `topic=="/images/delete"`)
	b.must(record.write(fact{At: time.Now(), Armed: true}))
	go func() {
		for n := 0; b.ctx.Err() == nil; n++ {
			begun := time.Now()
			errs := record.write(fact{At: begun, Image: "a7"})
			c, err := b.node.Run(b.ctx, node.RunSpec{ID: fmt.Sprint("step-", n), Image: ref("a7"), Args: []string{"true"}})
			if err == nil {
				_, err = c.Wait(b.ctx)
				errs = errors.Join(errs, err, record.write(fact{At: time.Now(), Image: "a7", Begun: begun}), c.Delete(b.ctx))
			}
			if err := errors.Join(errs, err); err != nil && b.ctx.Err() == nil {
				b.Errorf("step %d: %v", n, err)
				return
			}
		}
	}()
	go func() {
		if err := b.node.Fill("fill", int64(u.CapacityBytes)/100*2); err != nil {
			b.Error(err)
		}
	}()
	deadline := time.After(patience)
	for withdrawn := 0; ; {
		select {
		case e := <-events:
			if strings.Contains(string(e.Event.GetValue()), prefix) { // the CRI's own name of an image goes, too
				withdrawn++
			}
			if withdrawn == 2 {
				b.must(os.WriteFile("/proc/sysrq-trigger", []byte("b"), 0))
				select {} // for the moment that is left
			}
		case err := <-failed:
			b.Fatalf("events of containerd: %v", err)
		case <-deadline:
			b.Fatal("no second image was withdrawn")
		}
	}
}

// afterReset finds the node as the reset has left it.
func afterReset(t *testing.T) {
	facts := readTruth(t)
	b := rebootFixture(t, node.Reopen)
	b.config.Images.MaximumAge, b.config.Images.AgeRemovalsPerHourPercent = config.Duration(24*time.Hour), 100
	b.runs = 1000 // containers of before may be left
	b.scenario.ids = facts[0].IDs
	for _, i := range rebootImages() {
		b.scenario.images[nameOf(i)] = i
	}
	for _, f := range facts {
		if f.Image != "" {
			b.scenario.used(f.Image)
		}
	}
	saved := b.savedState()
	b.checkSaved(saved, facts)
	withdrawn, gone := b.withdrawn(), b.gone()
	gone = slices.DeleteFunc(gone, func(name string) bool { return slices.Contains(withdrawn, name) })
	last := facts[len(facts)-1].At
	t.Logf("the reset: %d lines of truth; %v withdrawn, %v gone; the state was last saved %v after the last line",
		len(facts), withdrawn, gone, saved.Meta.Saved.Sub(last).Round(time.Millisecond))
	if len(withdrawn) == 0 {
		t.Error("the reset was not in the middle of a removal: nothing is withdrawn")
	}
	for _, name := range gone {
		if slices.Contains(stay, name) {
			t.Errorf("image %s is gone", name)
		}
		b.scenario.forget(name)
	}

	b.must(b.node.Unfill("fill")) // or the agent goes on at once with what it has begun
	b.startKubelet(ref("wanted")).Close()
	mark := b.journal.mark()
	begun := time.Now()
	b.start()
	t.Logf("the agent was ready after %v", time.Since(begun).Round(time.Millisecond))
	b.journal.await(t, mark, "first start since a reboot; ages continue from the saved state")
	b.mustStay(b.scenario.order...) // the withdrawn ones, too
	b.checkShifted(saved, begun)
	b.awaitReason("wanted", "wanted")
	b.awaitReason("kept", "keep_rule")
	b.awaitReason("dead", "in_use")
	b.awaitReason("running", "in_use")

	// All that is there can be run, and the containers of before run again: one for ever,
	// the other to an end that containerd knows.
	dead := b.node.Container(node.CRINamespace, "dead")
	b.must(errors.Join(b.node.Container(node.CRINamespace, "running").Start(b.ctx), dead.Start(b.ctx)))
	_, err := dead.Wait(b.ctx)
	b.must(err)
	order := slices.DeleteFunc(slices.Clone(b.scenario.order), func(name string) bool { return name == "running" })
	b.use(order...)
	b.scenario.used("running")
	b.awaitOrder()
	mark = b.journal.mark()
	b.cross()
	b.journal.await(t, mark, "reclaim run ended")
	b.checkRun(mark, stay...)
	b.mustStay(stay...)
	t.Logf("a further crossing: %v removed", b.removedNames(mark))

	for _, name := range b.gone() {
		b.scenario.forget(name)
	}
	b.must(dead.Delete(b.ctx))
	b.deleteSteps()
	b.clockIsSet()
	b.stop()
	b.must(b.node.Whole(b.ctx))
}

// deleteSteps deletes what the reset has left of a container that came and went. Nobody knows
// whether it has ended, so that its image counts as used with each list.
func (b *fixture) deleteSteps() {
	b.Helper()
	all, err := b.node.Client().ContainerService().List(namespaces.WithNamespace(b.ctx, node.CRINamespace))
	b.must(err)
	for _, c := range all {
		if strings.HasPrefix(c.ID, "step-") {
			b.must(b.node.Container(node.CRINamespace, c.ID).Delete(b.ctx))
		}
	}
	b.eventually("the last use of a7", func() error {
		i, err := b.verdict(b.scenario.ids["a7"])
		if err == nil && i.Reason == "in_use" {
			err = errors.New("it is in use")
		}
		return err
	})
}

// clockIsSet sets the wall clock of the machine, which is ours, while the agent runs: no age
// and no order changes, and what comes next finds its place.
func (b *fixture) clockIsSet() {
	b.Helper()
	lastUses := func() (uses map[string]time.Time, now time.Time) {
		e, err := b.images()
		b.must(err)
		uses = make(map[string]time.Time)
		for _, i := range e.Images {
			if name := b.scenario.name(i.ID); i.LastUsed != nil && name != "running" { // used all the time
				uses[name] = *i.LastUsed
			}
		}
		return uses, e.Time
	}
	for _, jump := range []time.Duration{threeDays, -2 * threeDays, threeDays} {
		before, began := lastUses()
		wall := unix.NsecToTimeval(time.Now().Add(jump).UnixNano())
		b.must(unix.Settimeofday(&wall))
		oldest := b.scenario.order[0]
		b.use(oldest)
		b.scenario.used("running")
		b.awaitOrder()
		after, ended := lastUses()
		if passed := ended.Sub(began); passed < 0 || passed > threeDays/2 {
			b.Errorf("the clock was set by %v, and to the agent %v passed", jump, passed)
		}
		for name, was := range before {
			if name != oldest && !after[name].Equal(was) {
				b.Errorf("the clock was set by %v: the last use of %s was %v, now %v", jump, name, was, after[name])
			}
		}
		b.mustStay(b.scenario.order...)
	}
}

// savedState is what the agent had on the disk.
func (b *fixture) savedState() state.Records {
	store, records := b.openState()
	b.must(store.Close())
	return records
}

// checkShifted: each image is as old as it was when the state was saved, but those of
// containers that were not deleted, which may be younger: with its tasks containerd has
// forgotten which of them had ended, and when.
func (b *fixture) checkShifted(saved state.Records, begun time.Time) {
	e, err := b.images()
	b.must(err)
	shifts := map[string]time.Duration{}
	for _, i := range e.Images {
		name, before := b.scenario.name(i.ID), saved.Images[i.ID]
		if !slices.Contains(b.scenario.order, name) {
			continue
		}
		if i.LastUsed == nil {
			b.Errorf("image %s has no last use", name)
			continue
		}
		shifts[name] = i.LastUsed.Sub(before.LastUsed)
	}
	gap := slices.Min(slices.Collect(maps.Values(shifts)))
	if start := saved.Meta.Saved.Add(gap); start.Before(begun.Add(-time.Second)) || start.After(time.Now()) {
		b.Errorf("ages went on at %v, the agent was started at %v", start, begun)
	}
	for name, shift := range shifts {
		if shift-gap > time.Millisecond && !slices.Contains([]string{"running", "dead", "a7"}, name) {
			b.Errorf("image %s is younger by %v than when the state was saved", name, shift-gap)
		}
	}
	b.Logf("ages of %d images go on; off for %v", len(shifts), gap.Round(time.Millisecond))
}

// withdrawn are the images whose names an agent had taken away, by the leases that hold them.
func (b *fixture) withdrawn() (names []string) {
	all, err := b.node.Client().LeasesService().List(namespaces.WithNamespace(b.ctx, node.CRINamespace))
	b.must(err)
	for _, l := range all {
		for key, text := range l.Labels {
			for name := range b.scenario.ids {
				if strings.HasPrefix(key, "ebb-agent.github.io/withdrawn.") && strings.Contains(text, `"`+ref(name)+`"`) {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names) // the CRI has a name of its own for each
}
