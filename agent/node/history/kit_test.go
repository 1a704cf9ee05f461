package history

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	bolt "go.etcd.io/bbolt"

	"github.com/ebb-agent/ebb/agent/node/condition"
	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/state"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clocks are ebb's and the wall's.
type clocks struct {
	mu        sync.Mutex
	now, wall time.Time
}

func (c *clocks) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.wall = c.now.Add(d), c.wall.Add(d)
}

func (c *clocks) setWall(to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = to
}

func (c *clocks) read() (now, wall time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now, c.wall
}

// kit is a History whose file is written when the test calls write.
type kit struct {
	testing.TB
	*History
	clocks     *clocks
	conditions *condition.Set
	db         *bolt.DB
}

func newKit(t testing.TB, l limits) *kit {
	k := &kit{TB: t, clocks: &clocks{now: t0, wall: t0}}
	k.restart(l)
	return k
}

// restart is another agent: it has nothing but the clocks, and the file once it is attached.
func (k *kit) restart(l limits) {
	k.conditions = condition.NewSet(slog.New(slog.DiscardHandler))
	k.History = New(prometheus.NewRegistry(), Options{
		Now:        func() time.Time { now, _ := k.clocks.read(); return now },
		Wall:       func() time.Time { _, wall := k.clocks.read(); return wall },
		Conditions: k.conditions, limits: l,
	})
}

// attach opens the state file of a directory as the agent does.
func (k *kit) attach(dir string) {
	k.Helper()
	s, _, aside, err := state.Open(dir, t0)
	if err != nil || aside != "" {
		k.Fatalf("open: %v, moved aside: %q", err, aside)
	}
	k.db = s.DB()
	k.Attach(k.db)
}

// attachQuick is attach without syncs, for many short tests.
func (k *kit) attachQuick(path string) {
	k.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true, NoGrowSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		k.Fatal(err)
	}
	k.db = db
	k.Attach(db)
}

func (k *kit) close() {
	k.Helper()
	if err := k.db.Close(); err != nil {
		k.Fatal(err)
	}
}

// all reads everything, in pages of that size, and returns it as "ID outcome".
func (k *kit) all(limit int) []string {
	k.Helper()
	list := []string{}
	for before := ""; ; {
		p, err := k.Read(limit, before)
		if err != nil {
			k.Fatal(err)
		}
		for _, e := range p.Entries {
			list = append(list, cmp.Or(e.ID, e.Kind)+" "+e.Outcome)
		}
		if before = p.Next; before == "" {
			return list
		}
		if len(p.Entries) != limit {
			k.Fatalf("a page of %d entries, not %d, reports that there are more", len(p.Entries), limit)
		}
	}
}

func (k *kit) want(want ...string) {
	k.Helper()
	if got := k.all(PageMost); strings.Join(got, ", ") != strings.Join(want, ", ") {
		k.Errorf("got  %q\nwant %q", got, want)
	}
}

func (k *kit) count(c prometheus.Counter) int {
	k.Helper()
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		k.Fatal(err)
	}
	return int(m.GetCounter().GetValue())
}

func imageEntry(id string) page.HistoryEntry {
	return page.HistoryEntry{Kind: page.KindImage, ID: id, Names: []string{"docker.io/library/" + id + ":1"}, Rule: "threshold", Reason: "threshold", ComputedBytes: 7}
}

func quickFile(t testing.TB) string { return filepath.Join(t.TempDir(), "state.db") }

func ids(n int) []page.HistoryEntry {
	list := make([]page.HistoryEntry, n)
	for i := range list {
		list[i] = imageEntry(fmt.Sprint("i", i))
	}
	return list
}
