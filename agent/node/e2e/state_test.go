package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/tools/agentrun"
	"github.com/ebb-agent/ebb/tools/loopfs"
	"github.com/ebb-agent/ebb/tools/node"
)

// openState opens the state file that an agent left.
func (b *fixture) openState() (*state.Store, state.Records) {
	b.Helper()
	store, records, aside, err := state.Open(b.config.State.Directory, time.Now())
	b.must(err)
	if aside != "" {
		b.Fatalf("the agent left a state file that cannot be read: %s", aside)
	}
	return store, records
}

// editState changes the state file while no agent runs.
func (b *fixture) editState(edit func(*state.Records)) {
	b.Helper()
	store, records := b.openState()
	edit(&records)
	b.must(store.Save(records))
	b.must(store.Close())
}

// TestStateDamaged: with the file the ages are lost, and so everything counts
// as recent. Without the damage every image would go at once, by its age.
func TestStateDamaged(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*os.File, int64) error{
		"truncated": func(f *os.File, size int64) error { return f.Truncate(size / 2) },
		"garbage": func(f *os.File, size int64) error {
			_, err := f.WriteAt([]byte(strings.Repeat("no database ", int(size/12))), 0)
			return err
		},
		"empty": func(f *os.File, _ int64) error { return f.Truncate(0) },
		"pages": func(f *os.File, size int64) error { // all but the two that bbolt begins with
			_, err := f.WriteAt(slices.Repeat([]byte{0xff}, int(size)-8192), 8192)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, node.Debian, plains("a", 2)...)
			b.start()
			b.use("a0", "a1")
			b.awaitOrder()
			b.stop()
			b.editState(func(r *state.Records) { r.Shift(-48 * time.Hour) })
			b.must(agentrun.Unload(b.config)) // the kernel knows the truth otherwise
			b.damage(damage)

			b.config.Images.MaximumAge, b.config.Images.AgeRemovalsPerHourPercent = config.Duration(24*time.Hour), 100
			mark := b.journal.mark()
			b.start()
			line := b.journal.await(t, mark, "the state file could not be read and was moved aside; every image counts as recently used")
			if _, err := os.Stat(line.Text("moved")); err != nil {
				t.Errorf("where is the damaged file? %v", err)
			}
			b.awaitReason("a0", "not_needed")
			b.mustStay("a0", "a1")
			if got := b.metric("ebb_node_state_writable"); got != 1 {
				t.Errorf("persisted is %g", got)
			}
		})
	}
}

func (b *fixture) damage(how func(*os.File, int64) error) {
	b.Helper()
	f, err := os.OpenFile(filepath.Join(b.config.State.Directory, state.File), os.O_RDWR, 0)
	b.must(err)
	defer f.Close()
	info, err := f.Stat()
	b.must(err)
	b.must(how(f, info.Size()))
}

// TestStateNotWritable: the agent works from memory, logs that, and saves again
// once it can.
func TestStateNotWritable(t *testing.T) {
	t.Parallel()
	const stateBytes = "size=1m"
	for name, c := range map[string]struct {
		spoil, mend func(*fixture, string) error
	}{
		"read-only": {
			func(_ *fixture, dir string) error {
				return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, stateBytes)
			},
			func(_ *fixture, dir string) error { return unix.Mount("", dir, "", unix.MS_REMOUNT, stateBytes) },
		},
		"full": {
			func(_ *fixture, dir string) error { return fillUp(filepath.Join(dir, "filler")) },
			func(_ *fixture, dir string) error { return os.Remove(filepath.Join(dir, "filler")) },
		},
		"broken": {
			func(_ *fixture, dir string) error {
				_, err := loopfs.New(dir, "ext4", 8*mib)
				return errors.Join(err, breakDisk(dir))
			},
			func(_ *fixture, dir string) error { return unix.Unmount(dir, 0) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, node.Debian, plains("a", 7)...)
			dir := b.config.State.Directory
			b.must(os.MkdirAll(dir, 0o700))
			b.must(unix.Mount("tmpfs", dir, "tmpfs", 0, stateBytes)) // unmounted with the node
			b.must(c.spoil(b, dir))

			mark := b.journal.mark()
			b.start()
			b.journal.await(t, mark, "state cannot be written; working from memory")
			b.awaitMetric("ebb_node_state_writable", 0)
			b.use("a3", "a1", "a5", "a0", "a4", "a2", "a6")
			b.awaitOrder()
			b.cross()
			b.journal.await(t, mark, "reclaim run ended")
			b.checkRun(mark)

			b.must(c.mend(b, dir))
			b.importImages(plain("late", layerBytes)) // something to look at, and to save
			b.journal.await(t, mark, "state is written again")
			b.awaitMetric("ebb_node_state_writable", 1)
		})
	}
}

// breakDisk has all that asks for the disk of a directory fail with EIO.
func breakDisk(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return loopfs.Shutdown(d)
}

// TestStateDiskBreaks: under a running agent, the disk of the state gives nothing but EIO. The
// agent logs that once and goes on. What was saved before is there once the disk is mended.
func TestStateDiskBreaks(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 7)...)
	dir := b.config.State.Directory
	fs, err := loopfs.New(dir, "ext4", 8*mib) // unmounted with the node
	b.must(err)
	disk, err := os.Open(fmt.Sprint("/dev/loop", fs.Dev&(1<<20-1)))
	b.must(err)
	defer disk.Close() // else it would go with the mount
	b.start()
	b.use("a3", "a1", "a5", "a0", "a4", "a2", "a6")
	b.awaitOrder()
	b.stop()
	b.start()
	mark := b.journal.mark()
	b.must(breakDisk(dir))
	b.cross()
	b.journal.await(t, mark, "reclaim run ended")
	b.checkRun(mark)
	b.awaitMetric("ebb_node_state_writable", 0)
	b.importImages(plain("late", layerBytes)) // once more something to save
	b.awaitReason("late", "not_needed")
	b.stop() // saves, too
	logged := b.journal.since(mark, "state cannot be written; working from memory")
	if len(logged) != 1 || !strings.Contains(logged[0].Text("error"), "input/output error") {
		t.Errorf("logged %d times: %v", len(logged), logged)
	}

	b.must(agentrun.Unload(b.config)) // nobody but the file knows the order now
	b.must(errors.Join(unix.Unmount(dir, 0), unix.Mount(disk.Name(), dir, "ext4", 0, "")))
	b.start()
	b.awaitOrderOfRest()
	b.awaitMetric("ebb_node_state_writable", 1)
	if aside := b.journal.since(mark, "the state file could not be read and was moved aside; every image counts as recently used"); len(aside) > 0 {
		t.Errorf("the state was lost: %v", aside)
	}
}

// TestImageDiskBreaks: when images have to go, their disk gives nothing but EIO. The agent logs
// that and keeps running.
func TestImageDiskBreaks(t *testing.T) {
	t.Parallel()
	b := newFixture(t, node.Debian, plains("a", 6)...)
	b.start()
	b.use("a3", "a1", "a5", "a0", "a4", "a2")
	b.awaitOrder()
	b.stop()
	b.cross()
	b.must(breakDisk(b.node.Mount()))
	mark := b.journal.mark()
	b.startUnready()
	b.journal.await(t, mark, "image could not be removed; continuing with others")
	b.stop()
}

// fillUp writes a file until there is no room.
func fillUp(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	chunk := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(chunk)
	}
	for err = nil; err == nil; { // the last pages
		_, err = f.Write(chunk[:1])
	}
	return nil
}
