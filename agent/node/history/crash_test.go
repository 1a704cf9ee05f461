package history

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-agent/ebb/agent/node/page"
)

// After each transaction the file is what a power loss would leave: the next agent makes of it what
// had happened by then.
func TestCrashAtEachStep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	k := newKit(t, limits{})
	k.attachQuick(path)
	gone := make(map[string]bool)
	var attempts []*Attempt
	steps := []func(){
		func() { attempts = k.Begin(ids(3)...) },
		func() { gone["i0"] = true },
		func() { attempts[0].Removed(&Freed{Bytes: 1}); gone["i1"] = true },
		func() { attempts[1].Removed(&Freed{Bytes: 1}) },
		func() { attempts[2].PutBack("needed") },
		func() { attempts = k.Begin(imageEntry("j")) },
		func() { attempts[0].Cancel() },
		func() { k.Refused(page.HistoryEntry{Kind: page.KindHold, Reason: "begins"}) },
	}
	measured := []int{0, 0, 1, 2, 2, 2, 2, 2}
	for n, step := range steps {
		step()
		k.write()
		copied := filepath.Join(dir, fmt.Sprint("copy", n))
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(copied, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		next := newKit(t, limits{})
		next.attachQuick(copied)
		next.Listed(func(id string) bool { return !gone[id] }, page.KindImage)
		next.write()
		p, err := next.Read(0, "")
		if err != nil {
			t.Fatal(err)
		}
		figures := 0
		for _, e := range p.Entries {
			if e.Kind == page.KindImage && gone[e.ID] != (e.Outcome == page.OutcomeRemoved) {
				t.Errorf("step %d: %s is %s, gone: %v", n, e.ID, e.Outcome, gone[e.ID])
			}
			if e.FreedBytes != nil {
				figures++
			}
		}
		if figures != measured[n] {
			t.Errorf("step %d: %d have figures, want %d", n, figures, measured[n])
		}
		for id := range gone {
			if !slices.ContainsFunc(p.Entries, func(e page.HistoryEntry) bool { return e.ID == id }) {
				t.Errorf("step %d: %s is gone, and the history does not know it", n, id)
			}
		}
		next.close()
	}
	k.close()
}

// TestHelperRemoves is not a test: it is the process that TestKilledWhileRemoving kills. Its images
// are files.
func TestHelperRemoves(t *testing.T) {
	dir := os.Getenv("EBB_TEST_HISTORY_DIR")
	if dir == "" {
		return
	}
	k := newKit(t, limits{})
	k.attach(filepath.Join(dir, "state"))
	go k.Run(t.Context())
	files, err := filepath.Glob(filepath.Join(dir, "i*"))
	if err != nil {
		t.Fatal(err)
	}
	k.Listed(func(id string) bool { return slices.Contains(files, filepath.Join(dir, id)) }, page.KindImage)
	for n := 0; ; n++ {
		var group []page.HistoryEntry
		for i := range 1 + n%8 {
			e := imageEntry(fmt.Sprintf("i%d-%d-%d", os.Getpid(), n, i))
			if err := os.WriteFile(filepath.Join(dir, e.ID), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "was-"+e.ID), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			group = append(group, e)
		}
		attempts := k.Begin(group...)
		for <-attempts[0].round.over; k.count(k.metrics.failures) > 0; {
			t.Fatal("the history cannot be written")
		}
		for i, a := range attempts {
			if err := os.Remove(filepath.Join(dir, group[i].ID)); err != nil {
				t.Fatal(err)
			}
			a.Removed(&Freed{})
		}
	}
}

// Killed at any moment, the file has an entry of everything that went, which the next process tells
// apart from what stays.
func TestKilledWhileRemoving(t *testing.T) {
	dir := t.TempDir()
	for round := range 8 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHelperRemoves$")
		cmd.Env = append(os.Environ(), "EBB_TEST_HISTORY_DIR="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaitRemovals(t, dir, fmt.Sprint("was-i", cmd.Process.Pid, "-*"))
		time.Sleep(time.Duration(round) * 7 * time.Millisecond) // a different moment each round, not a wait for anything
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		checkRemovals(t, dir)
	}
}

func awaitRemovals(t *testing.T, dir, pattern string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if made, err := filepath.Glob(filepath.Join(dir, pattern)); err == nil && len(made) > 10 {
			return
		}
	}
	t.Fatal("the helper removes nothing")
}

func checkRemovals(t *testing.T, dir string) {
	t.Helper()
	k := newKit(t, limits{})
	k.attach(filepath.Join(dir, "state"))
	defer k.close()
	is := make(map[string]string)
	for _, one := range k.all(PageMost) {
		id, outcome, _ := strings.Cut(one, " ")
		is[id] = outcome
	}
	once, err := filepath.Glob(filepath.Join(dir, "was-*"))
	if err != nil || len(once) == 0 {
		t.Fatalf("%d files, %v", len(once), err)
	}
	for _, path := range once {
		id := strings.TrimPrefix(filepath.Base(path), "was-")
		_, err := os.Stat(filepath.Join(dir, id))
		switch there := err == nil; {
		case !there && is[id] != page.OutcomeRemoved && is[id] != page.OutcomeBegun:
			t.Errorf("%s is gone, and is %q in the history", id, is[id])
		case there && is[id] == page.OutcomeRemoved:
			t.Errorf("%s is there, and is %q in the history", id, is[id])
		}
	}
}
