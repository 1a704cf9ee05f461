package reclaim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-agent/ebb/agent/node/history"
	"github.com/ebb-agent/ebb/agent/node/removal"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/agent/node/watermark"
	"github.com/ebb-agent/ebb/policy/image"
)

// noHistory has no file yet, as if the state could not be opened.
func noHistory() *history.History { return history.New(prometheus.NewRegistry(), history.Options{}) }

// What is saved is what was restored, and is not touched by what comes after.
func TestRecordsAreCopied(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	fresh := func() state.Records {
		return state.Records{Meta: state.Meta{
			Removals: []time.Time{at, at.Add(2 * time.Hour)},
			Reclaim:  state.Reclaim{ReclaimingBytes: true, Hold: &image.Hold{Bytes: true, Space: []image.Space{{By: "in_use", Bytes: 1}}}},
			Content:  state.Reclaim{ReclaimingInodes: true},
		}}
	}
	r := New(prometheus.NewRegistry(), Options{Switch: &removal.Switch{}, History: noHistory(), Now: func() time.Time { return at.Add(150 * time.Minute) }})
	r.Restore(fresh())
	var saved state.Records
	r.Save(&saved)
	r.records.recent(r.o) // drops the one that is older than an hour
	r.records.layers.Hold.Space[0].Bytes = 2
	r.records.content.ReclaimingInodes = false
	if diff := cmp.Diff(fresh(), saved); diff != "" {
		t.Error(diff)
	}
}

// Groups double as long as all of one go, and begin anew at one.
func TestGroupSize(t *testing.T) {
	var boot time.Duration
	f := &filesystem{Filesystem: &watermark.Filesystem{}}
	f.AvailableBytes = 1000
	run := (&Reclaimer{o: &Options{Boot: func() time.Duration { return boot }}, target: f}).Begin(0, false)
	run.pace.planned(f, boot)
	for n, want := range []int{1, 2, 4, 8, 8} {
		if got := run.groupSize(); got != want {
			t.Errorf("group %d has %d images, want %d", n, got, want)
		}
		run.group = run.groupSize()
	}
	run.group = 0
	for _, c := range []struct {
		after            time.Duration
		available, freed uint64
		want             int
	}{
		{0, 1000, 0, 1},
		{time.Second, 950, 0, 1},                   // full in 19 s
		{time.Second, 900, 0, groupMost},           // in 9 s
		{time.Second, 1200, 300, 1},                // in 12 s
		{time.Second, 1200, 400, groupMost},        // in 6 s
		{10 * time.Second, 900, 0, 1},              // in 90 s
		{time.Second, 2000, 0, 1},                  // others free space
		{24 * time.Hour, 1000, 1 << 40, groupMost}, // as fast as images go
	} {
		boot, f.AvailableBytes, run.pace.freed = c.after, c.available, c.freed
		if got := run.groupSize(); got != c.want {
			t.Errorf("after %v with %d bytes available and %d freed: a group of %d images, want %d", c.after, c.available, c.freed, got, c.want)
		}
	}
	run.pace.planned(&filesystem{Filesystem: f.Filesystem}, boot)
	if got := run.groupSize(); got != 1 {
		t.Errorf("the pace of another filesystem makes a group of %d images", got)
	}
}

// On the filesystem of the blobs snapshots weigh nothing, but lead on to what does.
func TestGraphOfOneFilesystem(t *testing.T) {
	g := image.Graph{Nodes: []image.Node{
		{Kind: image.NodeSnapshot, Bytes: 7, Inodes: 3, Refs: []image.NodeID{1}},
		{Kind: image.NodeBlob, Bytes: 5, Inodes: 1},
	}}
	blobs := filesystem{weighs: func(k image.NodeKind) bool { return k == image.NodeBlob }}
	want := []image.Node{{Kind: image.NodeRecord, Refs: []image.NodeID{1}}, g.Nodes[1]}
	if diff := cmp.Diff(want, blobs.graph(g).Nodes); diff != "" {
		t.Error(diff)
	}
	if g.Nodes[0].Bytes != 7 {
		t.Error("the runtime's own graph was changed")
	}
}
