package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// A removal that succeeds shows that earlier tries of the same thing, whose outcome was not known, did not.
func TestRemovedAfterATryInDoubt(t *testing.T) {
	k := newKit(t, limits{})
	k.attachQuick(quickFile(t))
	k.Begin(imageEntry("i"))[0].Unknown("the runtime went away")
	count := func() int { return len(k.InDoubt(page.KindImage, func(page.HistoryEntry) bool { return true })) }
	if n := count(); n != 1 {
		t.Errorf("%d are in doubt", n)
	}
	k.Begin(imageEntry("i"))[0].Removed(&Freed{Bytes: 1})
	if gone := k.Listed(func(string) bool { return false }, page.KindImage); len(gone) > 0 || count() > 0 {
		t.Errorf("removed once more: %+v; in doubt: %d", gone, count())
	}
	k.write()
	k.want("i removed", "i put_back")
	k.close()
}

// What was tried twice has gone once.
func TestInDoubtTwice(t *testing.T) {
	k := newKit(t, limits{})
	k.attachQuick(quickFile(t))
	for range 2 {
		k.Begin(imageEntry("i"))[0].Unknown("the runtime went away")
	}
	if n := len(k.InDoubt(page.KindImage, func(page.HistoryEntry) bool { return true })); n != 1 {
		t.Errorf("%d are in doubt", n)
	}
	if gone := k.Listed(func(string) bool { return false }, page.KindImage); len(gone) != 1 {
		t.Errorf("%d are gone: %+v", len(gone), gone)
	}
	k.write()
	k.want("i removed", "i put_back")
	k.close()
}

// Each outcome is what the caller gave; the first one counts.
func TestOutcomes(t *testing.T) {
	k := newKit(t, limits{})
	k.attachQuick(quickFile(t))
	a := k.Begin(ids(7)...)
	k.write()
	k.want("i6 begun", "i5 begun", "i4 begun", "i3 begun", "i2 begun", "i1 begun", "i0 begun")
	a[0].Removed(&Freed{Bytes: 5, Inodes: 2, With: 1})
	a[0].Failed(errors.New("late"))
	a[1].PutBack("in use by container k8s.io/c")
	a[2].Stays("the sandbox image")
	a[3].Failed(errors.New("no such device"))
	a[4].Cancel()
	a[5].Unknown("the runtime went away")
	a[6].Unknown("the runtime went away")
	a[6].Removed(nil)
	doubt := k.Begin(imageEntry("here"), imageEntry("gone"))
	doubt[0].Unknown("")
	doubt[1].Unknown("")
	k.write()
	k.Listed(func(id string) bool { return id == "here" || id == "i5" }, page.KindSandbox)
	k.want("gone begun", "here begun", "i6 begun", "i5 begun", "i3 failed", "i2 refused", "i1 put_back", "i0 removed")
	k.clocks.pass(time.Second)
	k.Listed(func(id string) bool { return id == "here" || id == "i5" }, page.KindImage)
	k.write()
	k.want("gone removed", "i6 removed", "i5 put_back", "i3 failed", "i2 refused", "i1 put_back", "i0 removed")
	p, err := k.Read(10, "")
	if err != nil {
		t.Fatal(err)
	}
	five, two, ended, began := uint64(5), uint64(2), t0, t0.Add(time.Second)
	want := imageEntry("i0")
	want.Time, want.Wall, want.Ended, want.Outcome = t0, t0, &ended, page.OutcomeRemoved
	want.FreedBytes, want.FreedInodes, want.MeasuredWith = &five, &two, 1
	if diff := cmp.Diff(want, p.Entries[6]); diff != "" {
		t.Error(diff)
	}
	want = imageEntry("i6")
	want.Time, want.Wall, want.Ended, want.Outcome = t0, t0, &began, page.OutcomeRemoved
	want.Error = "what it freed was not measured: the runtime went away"
	if diff := cmp.Diff(want, p.Entries[1]); diff != "" {
		t.Error(diff)
	}
	if r, f := k.count(k.metrics.appended.WithLabelValues("removals")), k.count(k.metrics.appended.WithLabelValues("refusals")); r != 3 || f != 4 {
		t.Errorf("%d removals and %d refusals counted", r, f)
	}
}

// Some steps are no removal: they have no attempt.
func TestNoAttempt(t *testing.T) {
	var a *Attempt
	a.Removed(nil)
	a.Failed(errors.New("x"))
	a.Unknown("")
	a.Cancel()
}

// A refusal is recorded once, until it changes, something else comes of the thing, or an hour is over.
func TestRepeats(t *testing.T) {
	k := newKit(t, limits{})
	k.attachQuick(quickFile(t))
	try := func(reason string, repeats bool) {
		t.Helper()
		k.clocks.pass(time.Minute)
		before := len(k.all(PageMost))
		a := k.Begin(imageEntry("a"))
		k.write() // also one that was written as begun goes again
		a[0].PutBack(reason)
		k.write()
		if added := len(k.all(PageMost)) - before; added == 0 != repeats {
			t.Errorf("%q: %d entries were added", reason, added)
		}
	}
	try("in use by c", false)
	try("in use by c", true)
	try("in use by d", false)
	try("in use by c", false)
	k.clocks.pass(time.Hour)
	try("in use by c", false)
	k.Begin(imageEntry("a"))[0].Removed(nil)
	k.write()
	try("in use by c", false)
	for range 3 {
		k.Refused(page.HistoryEntry{Kind: page.KindCap, Reason: "reached"})
	}
	if len(k.queue.waiting) != 1 {
		t.Errorf("%d entries of one refusal wait", len(k.queue.waiting))
	}
	for n := range 3 * refusalsMost {
		k.Refused(imageEntry(fmt.Sprint(n)))
	}
	if len(k.refusals) > refusalsMost {
		t.Errorf("%d refusals are remembered", len(k.refusals))
	}
}

func TestPages(t *testing.T) {
	k := newKit(t, limits{})
	if _, err := k.Read(0, ""); !errors.Is(err, errNoFile) {
		t.Errorf("without a file: %v", err)
	}
	k.attachQuick(quickFile(t))
	if p, err := k.Read(0, ""); err != nil || p.Entries == nil || len(p.Entries) != 0 || p.Next != "" {
		t.Errorf("of an empty history: %+v, %v", p, err)
	}
	k.Begin(ids(pageUsual + 1)...)
	k.write()
	p, err := k.Read(0, "")
	if err != nil || len(p.Entries) != pageUsual || p.Next == "" {
		t.Fatalf("%d entries, next %q, %v", len(p.Entries), p.Next, err)
	}
	k.Begin(imageEntry("new")) // what comes between two pages changes neither
	k.write()
	if p, err = k.Read(1, p.Next); err != nil || len(p.Entries) != 1 || p.Next != "" || p.Entries[0].ID != "i0" {
		t.Errorf("the last page is %+v, %v", p, err)
	}
	for _, before := range []string{"0", "-1", "x", "1 ", "18446744073709551616"} {
		if _, err := k.Read(1, before); !errors.Is(err, ErrBefore) {
			t.Errorf("before %q: %v", before, err)
		}
	}
	if p, err = k.Read(1, "18446744073709551615"); err != nil || p.Entries[0].ID != "new" {
		t.Errorf("before a key that is still to come: %+v, %v", p, err)
	}
	if p, err = k.Read(1, "1"); err != nil || len(p.Entries) != 0 {
		t.Errorf("before the first: %+v, %v", p, err)
	}
}

// What another agent began gets its outcome from the first list.
func TestBegunByAnother(t *testing.T) {
	path := quickFile(t)
	k := newKit(t, limits{})
	k.attachQuick(path)
	a := k.Begin(ids(4)...)
	a[1].Removed(nil)
	k.write()
	a[2].Removed(nil) // and was killed before that was written
	k.close()
	k.restart(limits{})
	k.attachQuick(path)
	k.Begin(imageEntry("own"))
	k.write()
	k.want("own begun", "i3 begun", "i2 begun", "i1 removed", "i0 begun")
	k.Listed(func(id string) bool { return id == "i3" || id == "own" }, page.KindImage)
	k.write()
	k.want("own begun", "i3 put_back", "i2 removed", "i1 removed", "i0 removed")
	p, _ := k.Read(1, "4")
	if e := p.Entries[0]; e.FreedBytes != nil || e.Error != "what it freed was not measured: the agent ended meanwhile" {
		t.Errorf("%+v", e)
	}
}

// A removal waits for its entry.
func TestDurable(t *testing.T) {
	k := newKit(t, limits{})
	k.attachQuick(quickFile(t))
	go k.Run(t.Context())
	for n := range 5 {
		a := k.Begin(ids(n)...)
		k.Durable(t.Context(), append(a, nil)...)
		k.mu.Lock()
		for _, one := range a {
			if one.key == 0 {
				t.Error("an entry is not in the file")
			}
		}
		k.mu.Unlock()
		for _, one := range a {
			one.Removed(nil)
		}
	}
	k.Close()
	if late := k.count(k.metrics.late); late != 0 {
		t.Errorf("%d were late", late)
	}
	k.close()
}

// A removal does not wait for long if the disk hangs: the first one waits, and the others do not.
func TestDiskHangs(t *testing.T) {
	k := newKit(t, limits{})
	k.attachQuick(quickFile(t))
	go k.Run(t.Context())
	held, err := k.db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	k.Durable(t.Context(), k.Begin(imageEntry("first"))...)
	if took := time.Since(began); took < waitMost {
		t.Errorf("waited for %v", took)
	}
	if k.mu.Lock(); !k.queue.hangs {
		t.Error("others will wait, too")
	}
	k.mu.Unlock()
	for n := range 50 {
		k.Durable(t.Context(), k.Begin(imageEntry(fmt.Sprint("other", n)))...)
	}
	if took := time.Since(began); took >= 51*waitMost { // the least that all of them wait
		t.Errorf("fifty others waited, too: %v", took)
	}
	if late := k.count(k.metrics.late); late != 51 {
		t.Errorf("%d were late", late)
	}
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	a := k.Begin(imageEntry("last"))
	<-a[0].round.over
	if late := k.count(k.metrics.late); late != 51 || len(k.all(PageMost)) != 52 {
		t.Errorf("%d were late, %d entries", late, len(k.all(PageMost)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k.Durable(ctx, k.Begin(imageEntry("over"))...)
	k.Close()
	k.Close() // twice does no harm
	k.close()
}

// What counts as removed after a kill is what was removed, and what may have been.
func TestRemovals(t *testing.T) {
	dir := t.TempDir()
	all := func(page.HistoryEntry) bool { return true }
	k := newKit(t, limits{})
	if got := k.Removals(page.KindImage, time.Time{}, all); len(got) > 0 {
		t.Errorf("without a file: %v", got)
	}
	k.attach(dir)
	k.Begin(imageEntry("old"))[0].Removed(nil)
	k.clocks.pass(time.Hour)
	since := t0.Add(time.Hour)
	for _, outcome := range []func(*Attempt){
		func(a *Attempt) { a.Removed(nil) },
		func(a *Attempt) { a.PutBack("needed") },
		func(a *Attempt) { a.Failed(errors.New("no")) },
		func(a *Attempt) { a.Cancel() },
		func(*Attempt) {}, // the agent is killed
	} {
		outcome(k.Begin(imageEntry("new"))[0])
		k.clocks.pass(time.Minute)
	}
	k.Begin(page.HistoryEntry{Kind: page.KindContainer, ID: "c"})[0].Removed(nil)
	k.write()
	k.close()
	k.restart(limits{})
	k.attach(dir)
	want := []time.Time{since, since.Add(4 * time.Minute)}
	if got := k.Removals(page.KindImage, since, all); !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := k.Removals(page.KindImage, since, func(e page.HistoryEntry) bool { return e.ID != "new" }); len(got) > 0 {
		t.Errorf("got %v, which do not count", got)
	}
}
