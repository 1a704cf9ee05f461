package bpf

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func report(t testing.TB, dir string, sample time.Duration) *Report {
	t.Helper()
	r, err := ReadReport(context.Background(), dir, sample)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// programs returns the reports by program.
func (r *Report) byProgram() map[string]ProgramReport {
	all := map[string]ProgramReport{}
	for _, o := range r.Objects {
		for _, p := range o.Programs {
			all[p.Name] = p
		}
	}
	return all
}

func (r *Report) object(t testing.TB, name, state string) ObjectReport {
	t.Helper()
	i := slices.IndexFunc(r.Objects, func(o ObjectReport) bool { return o.Name == name && o.State == state })
	if i < 0 {
		t.Fatalf("no object %s is %s: %+v", name, state, r.Objects)
	}
	return r.Objects[i]
}

// tree lists what is below a directory.
func tree(t testing.TB, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// mapBudget is what all maps may take of the kernel's memory.
const mapBudget = 8 << 20

func TestReportOfARunningAgent(t *testing.T) {
	dir, r := pinDir(t), overlay(t)
	p := load(t, Options{PinDir: dir}) // holds the lock
	track(t, p, r.key)
	before := tree(t, dir)
	// It runs while statistics are on: the sample begins before and ends after.
	done := make(chan *Report, 1)
	go func() {
		r, err := ReadReport(context.Background(), dir, 5*time.Second)
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	var got *Report
	for got == nil {
		select {
		case got = <-done:
		default:
			r.run(t, "true")
		}
	}
	if got.Trial || got.RunTime != "" || got.Note != "" {
		t.Errorf("report is %+v", got)
	}
	for _, s := range p.Status() {
		if at := got.byProgram()[s.Name]; at.Attached != s.Attached || at.AttachPoint != s.AttachPoint || at.ID == 0 && s.Attached || at.Reason != s.Idle && at.Reason != limitBtrfs {
			t.Errorf("%s: %+v", s.Name, at)
		}
	}
	if exec := got.byProgram()[lastuseProgLastuseExec]; exec.Runs == 0 || exec.Nanoseconds == 0 || exec.Nanoseconds > 1e6 {
		t.Errorf("exec: %+v", exec)
	}
	layers := got.object(t, objectLastUse, StatePinned).Maps
	i := slices.IndexFunc(layers, func(m MapReport) bool { return m.Name == lastuseMapLayers })
	if m := layers[i]; m.Entries != 1 || m.MaxEntries != DefaultMaxLayers || m.Bytes < 16*DefaultMaxLayers {
		t.Errorf("layers: %+v", m)
	}
	if got.MapBytes == 0 || got.MapBytes > mapBudget {
		t.Errorf("maps take %d bytes, the budget is %d", got.MapBytes, mapBudget)
	}
	if !slices.Contains(got.Lost, Count{"unresolved_full", 0}) || got.Events[0].Count == 0 {
		t.Errorf("events %v, lost %v", got.Events, got.Lost)
	}
	if after := tree(t, dir); !slices.Equal(before, after) {
		t.Errorf("pins before %v, after %v", before, after)
	}
	since := now(t)
	r.run(t, "true")
	wantUsedSince(t, p, r.key, since) // it still records
}

func TestReportWithoutPinsLeavesNothing(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "pins")
	got := report(t, dir, 0)
	if !got.Trial || got.RunTime == "" {
		t.Errorf("report is %+v", got)
	}
	all := got.byProgram()
	if len(all) < 10 {
		t.Errorf("programs are %v", all)
	}
	for name, p := range all {
		idle := name == usageExt4ProgUsageReserve || name == usageExt4ProgUsageDirty // one of them is
		if idle && p.Reason != "" {
			continue
		}
		if !p.Attached || p.Reason != "" && p.Reason != limitBtrfs || p.ID == 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Errorf("%s was made", dir)
	}
}

func TestReportOfAnotherVersion(t *testing.T) {
	dir := pinDir(t)
	p := load(t, Options{PinDir: dir, MaxLayers: 64})
	p.Close()
	got := report(t, dir, 0)
	if other := got.object(t, objectLastUse, StateOther); len(other.Programs) != len(lastUseAttach) || !other.Programs[0].Attached {
		t.Errorf("of the other version: %+v", other)
	}
	if missing := got.object(t, objectLastUse, StateMissing); missing.Reason == "" || missing.Programs[0].Attached {
		t.Errorf("of this version: %+v", missing)
	}
	got.object(t, objectUsage+"ext4", StatePinned)
}

func TestReportOfDamagedPins(t *testing.T) {
	dir := pinDir(t)
	p := load(t, Options{PinDir: dir})
	usage, err := usageObject("ext4", nearBlocks)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	set := (&pins{dir: dir}).dirOf(usage)
	if err := unix.Unlink(filepath.Join(set, "links", usageExt4ProgUsageInode)); err != nil {
		t.Fatal(err)
	}
	got := report(t, dir, 0)
	damaged := got.object(t, objectUsage+"ext4", StateFailed)
	if !strings.Contains(damaged.Reason, usageExt4ProgUsageInode) {
		t.Errorf("damaged: %+v", damaged)
	}
	got.object(t, objectLastUse, StatePinned)
}

func TestReportEndsWithItsContext(t *testing.T) {
	needRoot(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := ReadReport(ctx, t.TempDir(), time.Hour); err == nil {
		t.Errorf("report is %+v", r)
	}
}
