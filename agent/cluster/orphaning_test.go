package cluster

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ebb-agent/ebb/agent/cluster/config"
	"github.com/ebb-agent/ebb/agent/cluster/election"
	"github.com/ebb-agent/ebb/agent/cluster/events"
	"github.com/ebb-agent/ebb/agent/cluster/gate"
	"github.com/ebb-agent/ebb/agent/cluster/journal"
	"github.com/ebb-agent/ebb/policy/gc"
)

var errEtcd = errors.New("etcdserver: request timed out")

func (b *fixture) journalFails(err error) {
	b.kept.Set(func(m *journal.Memory) {
		m.Fail = nil
		if err != nil {
			m.Fail = func(journal.Segment) (bool, error) { return false, err }
		}
	})
}

func (b *fixture) puts() (n int) {
	b.kept.Set(func(m *journal.Memory) { n = m.Puts })
	return n
}

// stored are the UIDs that another process would find.
func (b *fixture) stored() int {
	found, err := journal.New(b.kept, config.Default().LeaderElection.JournalName()).Read(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return len(found.Entries)
}

// A journal that cannot be written holds orphaning, and nothing else.
func TestOrphaningHeld(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		start bool // it is so from the start
		stops bool // then nothing is sent at all
	}{
		"for a while":                          {err: errEtcd},
		"full":                                 {err: journal.ErrFull},
		"forbidden, and there has been none":   {err: fmt.Errorf("%w: forbidden", journal.ErrRefused), start: true},
		"from the start, and others may write": {err: errEtcd, start: true, stops: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(f *fake) {
				if tc.start {
					f.kept.Fail = func(journal.Segment) (bool, error) { return false, tc.err }
				}
			}, func(b *fixture) {
				b.journalFails(tc.err)
				owner, background := b.api.put(set("s")), b.api.put(set("t"))
				pods, gone := b.pods(owner, 10), b.pods(background, 10)
				b.api.remove(owner, gc.Orphan)
				b.api.remove(background, gc.Background)
				b.after(10 * time.Minute)
				b.want("pods left", b.left(pods), 10)
				b.want("owner is there", b.api.get(owner) != nil, true)
				b.metric("orphaning_held", 1)
				b.want("logged", b.logged("orphaning of owners waits"), 1)
				left := 0
				if tc.stops {
					left = 10
				} else {
					b.want("events", len(b.api.notices), 1)
					b.want("event", b.api.notices[0].Reason+" "+b.api.notices[0].Object.Name, events.Held+" s")
				}
				b.want("pods of the other left", b.left(gone), left)
				b.journalFails(nil)
				b.after(time.Minute)
				b.want("owner is there afterwards", b.api.get(owner) != nil, false)
				b.want("pods of the other left afterwards", b.left(gone), 0)
				b.metric("orphaning_held", 0)
			})
		})
	}
}

// The collector of owners sends nothing before it is known who was orphaned. The other collectors do not
// need to know.
func TestJournalUnreadable(t *testing.T) {
	inBubble(t, func(c *config.Config) { c.Collectors.Jobs.Mode = config.Enforce }, func(f *fake) { withJobs(f); f.kept.Deaf = errEtcd }, func(b *fixture) {
		due := b.jobs(3, 10*time.Second)
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 3)
		b.api.remove(owner, gc.Background)
		b.after(time.Minute)
		b.want("left", b.left(pods), 3)
		b.want("Jobs deleted", b.deletions("Job"), 3)
		b.want("sent for owners", len(b.api.sent), 3)
		b.want("state", b.c.gate.Status(), "owners wait: reading the journal of orphaned owners")
		b.kept.Set(func(m *journal.Memory) { m.Deaf = nil })
		b.after(time.Minute)
		b.want("left", b.left(pods)+b.left(due), 0)
	})
}

// What is deleted at the same time is written together, and within a second.
func TestJournalBatches(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		before := b.puts()
		var owners []gc.Object
		for i := range 50 {
			owners = append(owners, b.api.put(set(fmt.Sprint("s", i))))
		}
		for _, o := range owners {
			b.api.remove(o, gc.Orphan)
			b.after(time.Millisecond)
		}
		b.after(900 * time.Millisecond)
		b.want("owners left", b.left(owners), 0)
		if n := b.puts() - before; n > 3 {
			t.Errorf("%d writes for %d owners", n, len(owners))
		}
		b.want("lists", b.api.catchUps, 0)
		b.metric("orphan_journal_entries", 50)
	})
}

// A dependent that is seen late lives, also under another leader, and whatever the
// first one was doing when it ended.
func TestLateDependent(t *testing.T) {
	for _, moment := range []string{"at once", "with another leader"} {
		t.Run(moment, func(t *testing.T) {
			var owner, late gc.Object
			var before *fixture
			inBubble(t, nil, nil, func(b *fixture) {
				owner, before = b.api.put(set("s")), b
				b.api.remove(owner, gc.Orphan)
				b.after(time.Second)
				b.want("owner is there", b.api.get(owner) != nil, false)
				if moment == "at once" {
					b.after(10 * time.Minute)
					late = b.pods(owner, 1)[0]
					b.after(time.Minute)
					b.want("references", len(b.api.get(late).Owners), 0)
					return
				}
				late = b.pods(owner, 1)[0]
				b.stop(nil)
			})
			if moment == "at once" {
				return
			}
			inBubble(t, nil, func(f *fake) {
				f.kept = before.kept
				f.store(late)
			}, func(b *fixture) {
				b.after(time.Minute)
				o := b.api.get(late)
				b.want("the late one is there", o != nil && !o.Terminating && len(o.Owners) == 0, true)
			})
		})
	}
}

// Whoever has taken the journal over leads: the other sends nothing any more.
func TestFenced(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		owner := b.api.put(set("s"))
		if _, err := journal.New(b.kept, config.Default().LeaderElection.JournalName()).TakeOver(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		b.api.remove(owner, gc.Orphan)
		b.after(time.Minute)
		b.want("owner is there", b.api.get(owner) != nil, true)
		<-b.done
		b.want("ended with", b.err, election.ErrLost)
	})
}

// An entry is removed after a day, once every type has reported all that was before; a type that
// cannot be read keeps the entry, and this is reported.
func TestJournalSwept(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		owner := b.api.put(set("s"))
		b.api.remove(owner, gc.Orphan)
		b.after(23 * time.Hour)
		b.want("stored", b.stored(), 1)
		b.want("types asked", b.api.catchUps, 0)
		b.api.fault("Pod", errors.New("503"))
		b.after(4 * time.Hour)
		b.want("stored while pods cannot be read", b.stored(), 1)
		b.metric("orphan_journal_blocking_types", 1)
		if n := b.api.catchUps; n == 0 || n > 4*len(b.api.types) {
			t.Errorf("%d questions in four hours", n)
		}
		b.api.fault("Pod", nil)
		b.after(2 * time.Hour)
		b.want("stored at last", b.stored(), 0)
		b.metric("orphan_journal_blocking_types", 0)
	})
}

// journalOfAPredecessor has one owner, which another process has orphaned.
func journalOfAPredecessor(t *testing.T) (kept *journal.Memory) {
	t.Helper()
	inBubble(t, nil, nil, func(b *fixture) {
		kept = b.kept
		b.api.remove(b.api.put(set("s")), gc.Orphan)
		b.after(time.Second)
		b.want("stored", b.stored(), 1)
	})
	return kept
}

// What a predecessor recorded goes after a day, although nothing is recorded any more.
func TestJournalOfAPredecessorSwept(t *testing.T) {
	kept := journalOfAPredecessor(t)
	inBubble(t, nil, func(f *fake) { f.kept = kept }, func(b *fixture) {
		b.after(27 * time.Hour)
		b.want("stored a day later", b.stored(), 0)
	})
}

// What was swept leaves the stored journal once that can be written, although nothing else is
// written.
func TestJournalSweptWhileItCannotBeWritten(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		b.api.remove(b.api.put(set("s")), gc.Orphan)
		b.after(time.Hour)
		b.journalFails(errEtcd)
		b.after(26 * time.Hour)
		b.want("stored", b.stored(), 1)
		before := b.puts()
		b.journalFails(nil)
		b.after(time.Minute)
		b.want("stored once it can be written", b.stored(), 0)
		b.want("writes", b.puts()-before, 1)
		b.metric("orphaning_held", 0)
	})
}

// It is not lost either if ebb only observes meanwhile.
func TestJournalSweptThenObserved(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		b.api.remove(b.api.put(set("s")), gc.Orphan)
		b.after(time.Hour)
		b.journalFails(errEtcd)
		b.after(26 * time.Hour)
		b.configure(func(c *config.Config) { c.Mode = config.Observe })
		b.after(time.Minute)
		b.journalFails(nil)
		b.after(time.Minute)
		b.want("stored while observing", b.stored(), 1)
		b.configure(func(c *config.Config) { c.Mode = config.Enforce })
		b.after(time.Minute)
		b.want("stored", b.stored(), 0)
	})
}

// The time of an entry may be wrong: it came from another clock, or a person wrote it. It holds no
// other entry.
func TestJournalOfTheFutureSwept(t *testing.T) {
	inBubble(t, nil, func(f *fake) {
		if _, err := f.kept.Put(t.Context(), journal.Segment{Name: config.Default().LeaderElection.JournalName(), Token: "another",
			Entries: map[string]time.Time{"ahead": time.Now().Add(365 * 24 * time.Hour)}}); err != nil {
			t.Fatal(err)
		}
	}, func(b *fixture) {
		b.api.remove(b.api.put(set("s")), gc.Orphan)
		b.after(27 * time.Hour)
		b.want("stored", b.stored(), 0)
	})
}

// Orphaning that nobody wants any more holds no alert.
func TestOrphaningHeldEnds(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		b.journalFails(errEtcd)
		owner := b.api.put(set("s"))
		b.api.remove(owner, gc.Orphan)
		b.after(time.Minute)
		b.metric("orphaning_held", 1)
		b.api.remove(owner, gc.Background)
		b.journalFails(nil)
		b.after(time.Minute)
		b.want("owner is there", b.api.get(owner) != nil, false)
		b.metric("orphaning_held", 0)
		before := b.puts()
		b.after(time.Hour)
		b.want("writes afterwards", b.puts()-before, 0)
	})
}

// While ebb observes, nothing is held.
func TestOrphaningHeldEndsInObserve(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		b.journalFails(errEtcd)
		b.api.remove(b.api.put(set("s")), gc.Orphan)
		b.after(time.Minute)
		b.metric("orphaning_held", 1)
		b.configure(func(c *config.Config) { c.Mode = config.Observe })
		b.after(time.Minute)
		b.metric("orphaning_held", 0)
	})
}

// A take-over counts once the collector has what was found, however long that took.
func TestTakenOverBesideABusyLoop(t *testing.T) {
	slow := true
	inBubble(t, nil, func(f *fake) {
		f.kept.Fail = func(journal.Segment) (bool, error) {
			if slow {
				slow = false
				time.Sleep(19 * time.Second)
			}
			return true, nil
		}
	}, func(b *fixture) {
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 3)
		b.api.remove(owner, gc.Background)
		b.after(17 * time.Second)
		go func() { _ = b.c.loop.do(b.t.Context(), func(time.Time) { time.Sleep(5 * time.Second) }) }()
		b.after(time.Minute)
		b.want("pods left", b.left(pods), 0)
	})
}

// A removal that waits does not meet the journal of a restored etcd, which another process wrote.
func TestJournalSweptThenRestored(t *testing.T) {
	kept := journalOfAPredecessor(t)
	restore := kept.Backup()
	inBubble(t, nil, func(f *fake) { f.kept = kept }, func(b *fixture) {
		b.after(time.Hour)
		b.api.remove(b.api.put(set("t")), gc.Orphan)
		b.after(time.Hour)
		b.journalFails(errEtcd)
		b.after(26 * time.Hour)
		restore()
		b.goBack()
		b.after(time.Minute)
		b.journalFails(nil)
		b.after(time.Minute)
		select {
		case <-b.done:
			t.Errorf("ended with %v", b.err)
		default:
		}
	})
}

// A take-over that was under way when etcd was restored proves nothing about the journal that is there
// now: nothing is sent before that one is taken over.
func TestRestoredDuringTakeOver(t *testing.T) {
	var writes atomic.Int64
	inBubble(t, nil, func(f *fake) {
		f.kept.Fail = func(journal.Segment) (bool, error) {
			switch writes.Add(1) {
			case 1:
				time.Sleep(10 * time.Second)
				return true, nil
			case 2:
				time.Sleep(2 * time.Minute)
			}
			return false, errEtcd
		}
	}, func(b *fixture) {
		owner := b.api.put(set("s"))
		pods := b.pods(owner, 3)
		b.after(5 * time.Second)
		b.goBack()
		b.after(10 * time.Second)
		b.api.remove(owner, gc.Background)
		b.after(time.Minute)
		b.want("pods left", b.left(pods), 3)
		b.want("take-overs", writes.Load(), 2)
		b.after(2 * time.Minute)
		b.journalFails(nil)
		b.after(time.Minute)
		b.want("pods left once it is taken over", b.left(pods), 0)
	})
}

// An etcd of before: the union of what it has and what is known is written, and nobody
// is deleted meanwhile.
func TestJournalRestored(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		restore := b.kept.Backup()
		owner := b.api.put(set("s"))
		b.api.remove(owner, gc.Orphan)
		b.after(time.Second)
		b.want("stored", b.stored(), 1)
		restore()
		b.want("stored in the old etcd", b.stored(), 0)
		b.goBack()
		b.after(time.Minute)
		b.want("stored again", b.stored(), 1)
		late := b.pods(owner, 1)[0]
		b.after(time.Minute)
		b.want("references", len(b.api.get(late).Owners), 0)
	})
}

// In mode observe nothing is written; after a switch to enforce, the journal is taken over first.
func TestJournalObserved(t *testing.T) {
	inBubble(t, func(c *config.Config) { c.Mode = config.Observe }, nil, func(b *fixture) {
		owner := b.api.put(set("s"))
		b.pods(owner, 2)
		b.api.remove(owner, gc.Orphan)
		b.after(time.Hour)
		b.want("writes", b.puts(), 0)
		b.want("requests", len(b.api.sent), 0)
		b.want("types asked", b.api.catchUps, 0)
		b.configure(func(c *config.Config) { c.Mode = config.Enforce })
		b.after(time.Minute)
		b.want("owner is there", b.api.get(owner) != nil, false)
		b.want("stored", b.stored(), 1)
	})
}

// The gate lets no finalizer orphan go whose object is not in the journal.
func TestGateAsksTheJournal(t *testing.T) {
	inBubble(t, nil, nil, func(b *fixture) {
		a := gc.Action{Verb: gc.RemoveFinalizer, Finalizer: gc.OrphanFinalizer, Object: at(set("s"))}
		a.Object.UID = "nobody"
		why, _ := b.c.gate.Admit(time.Now(), a)
		b.want("result", why, gate.Unrecorded)
		synctest.Wait()
	})
}
