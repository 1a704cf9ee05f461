package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/tools/await"
	"github.com/ebb-agent/ebb/tools/peers"
	"github.com/ebb-agent/ebb/tools/peers/peerstest"
)

// What an etcd can do to a controller that runs all the while.
func TestEtcdFaults(t *testing.T) {
	b := newFixture(t, peers.Config{})
	b.define(t, "v1")
	p := newProxy(t, 0, b.URL())
	r := b.start(t, p.kubeconfig(t, b), nil)
	g := b.guard(t)
	t.Run("hangs in mid-cascade", func(t *testing.T) { testEtcdHangs(t, b) })
	t.Run("compacted while nobody watched", func(t *testing.T) { testCompacted(t, b, p) })
	t.Run("restored in mid-cascade", func(t *testing.T) { testRestoredInCascade(t, b, p, r) })
	t.Run("restored in mid-orphaning", func(t *testing.T) { testRestoredInOrphaning(t, b, p) })
	t.Run("restored and overtaken", func(t *testing.T) { testOvertaken(t, b, p, r, nothing, nothing) })
	t.Run("away, and nothing was restored", func(t *testing.T) { testAway(t, b, p, r) })
	r.awaitSynced(t)
	g.check(t)
}

// guard is what must live through everything: dependents of owners that live, of
// several types, with one owner and with two.
type guard struct {
	*scenario
	ends []string
}

func (b *fixture) guard(t *testing.T) *guard {
	t.Helper()
	g := &guard{scenario: b.scenario(t)}
	g.make("cm/o", "widget/p", "class/q", "deploy/d", "rs/r < !deploy/d", "pod/a < !rs/r", "cm/b < cm/o widget/p",
		"secret/c < !widget/p", "widget/e < cm/o", "class/f < class/q", "secret/g < class/q cm/o")
	g.ends = []string{"cm/o", "widget/p", "class/q", "deploy/d", "rs/r=1", "pod/a=1", "cm/b=2", "secret/c=1", "widget/e=1", "class/f=1", "secret/g=2"}
	return g
}

func (g *guard) check(t *testing.T) {
	t.Helper()
	g.t = t
	g.want(g.ends...)
}

// canary is a cascade of today: when it has ended the controller works again, for
// what had been due before it, too.
func (b *fixture) canary(t *testing.T) {
	t.Helper()
	s := b.scenario(t)
	s.make("cm/o", "cm/a < cm/o", "widget/b < !cm/a", "secret/c < !widget/b")
	s.remove("cm/o", background)
	s.want("-cm/a", "-widget/b", "-secret/c")
}

// backup copies what etcd has. It is stopped in its tracks meanwhile, so that the
// copy is as a crash would leave it.
func (b *fixture) backup(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "etcd")
	if err := b.Etcd.Pause(); err != nil {
		t.Fatal(err)
	}
	err := os.CopyFS(dir, os.DirFS(b.EtcdDir()))
	if err := errors.Join(err, b.Etcd.Resume()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// restore puts a backup back, with the API server down, as etcd's manual prescribes.
func (b *fixture) restore(t *testing.T, backup string) {
	t.Helper()
	etcd := b.EtcdDir()
	for _, step := range []func() error{
		b.APIServer.Kill, b.Etcd.Kill,
		func() error { return os.RemoveAll(etcd) },
		func() error { return os.CopyFS(etcd, os.DirFS(backup)) },
		func() error { return os.Chmod(etcd, 0o700) },
		func() error { return b.Etcd.Start(t.Context()) },
		func() error { return b.APIServer.Start(t.Context()) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
}

// A cascade is at work when the API server goes away, and is no longer true when it
// comes back: what is in the queue has the UIDs and resourceVersions of objects whose
// owner lives. resourceVersions do not show it: they have gone on.
func testRestoredInCascade(t *testing.T, b *fixture, p *proxy, r *running) {
	noticed := r.metric(t, "etcd_restores_total")
	const n = 200
	s := b.scenario(t)
	s.make("cm/o", "cm/other")
	s.many("secret", "cm/o", n)
	backup := b.backup(t)
	s.remove("cm/o", background)
	await.Holds(t, patience, "the cascade to begin", func(ctx context.Context) error {
		all, _, err := s.left(ctx, "secret")
		if err == nil && all == n {
			err = errors.New("all are there")
		}
		return err
	})
	p.cut()
	if all, _, err := s.left(t.Context(), "secret"); all < n/10 || err != nil {
		t.Fatalf("%d left, %v: that tests nothing", all, err)
	}
	b.restore(t, backup)
	s.many("widget", "cm/other", n/2)
	p.join()
	b.canary(t)
	s.want("cm/o", "cm/other")
	s.awaitLeft("secret", n, n)
	s.awaitLeft("widget", n/2, n/2)
	if got := r.metric(t, "etcd_restores_total"); got != noticed+1 {
		t.Errorf("noticed %v times", got-noticed)
	}
}

// References are being taken away when the API server goes away, and when it comes back
// their owner lives: nobody has deleted it. The first request that gets through must not
// be one more of them.
func testRestoredInOrphaning(t *testing.T, b *fixture, p *proxy) {
	const n = 200
	s := b.scenario(t)
	s.make("cm/o")
	s.many("secret", "cm/o", n)
	backup := b.backup(t)
	s.remove("cm/o", policy("Orphan"))
	await.Holds(t, patience, "orphaning to begin", func(ctx context.Context) error {
		_, owned, err := s.left(ctx, "secret")
		if err == nil && owned == n {
			err = errors.New("all have their owner")
		}
		return err
	})
	p.cut()
	if _, owned, err := s.left(t.Context(), "secret"); owned < n/10 || err != nil {
		t.Fatalf("%d owned, %v: that tests nothing", owned, err)
	}
	b.restore(t, backup)
	p.join()
	b.canary(t)
	s.want("cm/o")
	if all, owned, err := s.left(t.Context(), "secret"); all != n || owned != n || err != nil {
		t.Errorf("of %d secrets, %d are there, and %d have their owner: %v", n, all, owned, err)
	}
}

// What only the backup has is known within seconds although no version went backwards:
// who was gone, who had other owners, and that others never were.
// before and after are called around what happens after the backup.
func testOvertaken(t *testing.T, b *fixture, p *proxy, r *running, before, after func()) {
	noticed := r.metric(t, "etcd_restores_total")
	s := b.scenario(t)
	s.make("cm/gone", "cm/o", "cm/p", "cm/a < cm/gone", "cm/b < cm/o cm/p", "secret/c < cm/b", "widget/quiet < cm/o", "cm/late < cm/p + example.com/hold")
	before()
	backup := b.backup(t)
	s.remove("cm/gone", background)
	s.want("-cm/a")
	s.own("cm/b", "cm/p")
	s.make("cm/lost", "cm/d < cm/lost")
	s.remove("cm/p", background)
	s.want("-cm/b", "-secret/c", "cm/late!")
	after()
	last := b.version(t)
	p.cut()
	b.restore(t, backup)
	s.make("secret/new < cm/gone") // of a type that may be resumed before the owner's is listed
	for i := 0; b.version(t) <= last; i++ {
		s.create(t.Context(), fmt.Sprintf("class/c%d", i)) // another type's versions overtake all
	}
	p.join()
	begun := time.Now()
	await.Holds(t, patience, "the restored etcd to be noticed", func(context.Context) error {
		if got := r.metric(t, "etcd_restores_total"); got != noticed+1 {
			return fmt.Errorf("noticed %v times", got-noticed)
		}
		return nil
	})
	b.canary(t)
	t.Logf("the truth of the backup is known after %v", time.Since(begun))
	s.remove("cm/p", background)
	s.want("cm/gone", "cm/o", "cm/a=1", "cm/b=1", "secret/c=1", "widget/quiet=1", "cm/late!")
	s.remove("cm/o", background)
	s.want("-cm/b", "-secret/c", "-widget/quiet", "cm/gone", "cm/a=1", "secret/new=1")
}

func nothing() {}

// An API server that was away, and came back with what it had: a list, and no alarm.
func testAway(t *testing.T, b *fixture, p *proxy, r *running) {
	noticed, away := r.metric(t, "etcd_restores_total"), b.scenario(t)
	away.make("cm/o", "cm/p", "cm/a < cm/o", "widget/b < cm/p")
	b.canary(t)
	for range 2 {
		p.cut()
		away.own("cm/a", "cm/o", "cm/p")
		away.remove("cm/o", background)
		away.make("cm/o < cm/p", "secret/c < cm/o")
		time.Sleep(peerstest.Outage(t, 2500*time.Millisecond)) // the fault itself
		p.join()
		away.want("cm/a=1", "secret/c=1")
		away.remove("cm/o", orphan)
		away.want("-cm/o", "secret/c=0")
		away.make("cm/o")
		away.own("secret/c", "cm/o")
		away.remove("secret/c", background)
		b.canary(t)
	}
	if got := r.metric(t, "etcd_restores_total"); got != noticed {
		t.Errorf("%v restores of etcd are reported", got-noticed)
	}
}

// version is etcd's now.
func (b *fixture) version(t *testing.T) uint64 {
	t.Helper()
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := b.Ask(t.Context(), http.MethodGet, "/api/v1/namespaces/default/configmaps", nil, &list); err != nil {
		t.Fatal(err)
	}
	v, err := strconv.ParseUint(list.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// An etcd that hangs for some seconds: requests pile up or run out of time, and
// nobody knows what became of them.
func testEtcdHangs(t *testing.T, b *fixture) {
	s := b.scenario(t)
	s.make("cm/o", "cm/p", "cm/q", "cm/keep")
	s.many("secret", "cm/o", 200)
	s.many("pod", "cm/p", 40)
	s.many("widget", "cm/q", 40)
	s.make("cm/a < cm/o cm/keep", "cm/b < cm/q cm/keep")
	s.remove("cm/o", background)
	s.remove("cm/p", foreground)
	s.remove("cm/q", orphan)
	for range 2 {
		if err := b.Etcd.Pause(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1500 * time.Millisecond) // the fault itself
		if err := b.Etcd.Resume(); err != nil {
			t.Fatal(err)
		}
	}
	s.want("-cm/o", "-cm/p", "-cm/q", "cm/a=1", "cm/b=1", "cm/keep")
	s.awaitLeft("secret", 0, 0)
	s.awaitLeft("pod", 0, 0)
	s.awaitLeft("widget", 40, 0)
	b.canary(t)
}

// Watches that cannot be taken up where they broke off: while the controller is cut
// off, owners go, and neither etcd nor the API server knows any more how.
func testCompacted(t *testing.T, b *fixture, p *proxy) {
	s := b.scenario(t)
	s.make("cm/o", "cm/p", "cm/q", "cm/keep", "cm/a < cm/o", "widget/b < cm/o", "secret/c < !cm/p", "cm/d < cm/q", "cm/e < cm/o cm/keep")
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := b.Ask(t.Context(), http.MethodGet, s.path("cm/"), nil, &list); err != nil {
		t.Fatal(err)
	}
	p.cut()
	s.remove("cm/o", background)
	s.remove("cm/p", foreground)
	s.remove("cm/q", orphan)
	s.want("-cm/o", "cm/p!", "cm/q!", "cm/a=1", "cm/e=2")
	b.Compact(t)
	if err := errors.Join(b.APIServer.Kill(), b.APIServer.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	var event struct {
		Type   string
		Object struct{ Code int }
	}
	query := "?watch=true&timeoutSeconds=5&resourceVersion=" + list.Metadata.ResourceVersion
	if err := b.Ask(t.Context(), http.MethodGet, s.path("cm/")+query, nil, &event); err != nil || event.Object.Code != http.StatusGone {
		t.Fatalf("history is there still: %+v, %v", event, err)
	}
	p.join()
	s.want("-cm/a", "-widget/b", "-secret/c", "-cm/p", "-cm/q", "cm/d=0", "cm/e=1", "cm/keep")
	b.canary(t)
}
