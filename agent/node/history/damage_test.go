package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/tools/await"
)

// damage changes a file that nobody has open.
func damage(t *testing.T, path string, f func(tx *bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoSync: true})
	if err == nil {
		err = errors.Join(db.Update(f), db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A bucket whose keys make no sense is made anew with the next write, the others stay, and no key
// comes twice.
func TestDamagedBucket(t *testing.T) {
	for name, f := range map[string]func(b *bolt.Bucket) error{
		"short key": func(b *bolt.Bucket) error { return b.Put([]byte("x"), []byte("{}")) },
		"bucket": func(b *bolt.Bucket) error {
			_, err := b.CreateBucket(keyBytes(99))
			return err
		},
	} {
		for s := begun; s < bucketCount; s++ {
			t.Run(fmt.Sprint(name, " in ", string(buckets[s])), func(t *testing.T) {
				path := quickFile(t)
				k := newKit(t, limits{})
				k.attachQuick(path)
				a := k.Begin(ids(3)...)
				a[1].Stays("needed")
				a[2].Removed(nil)
				k.write()
				k.close()
				damage(t, path, func(tx *bolt.Tx) error { return f(tx.Bucket(buckets[s])) })
				k.restart(limits{})
				k.attachQuick(path)
				defer k.close()
				if !k.conditions.Holds(unwritable) {
					t.Error("the condition is not reported")
				}
				want := map[bucket][]string{
					begun: {"i2 removed", "i1 refused"}, removals: {"i1 refused", "i0 begun"}, refusals: {"i2 removed", "i0 begun"},
				}[s]
				k.want(want...)
				k.write() // nothing waits but the repair
				k.want(want...)
				if k.conditions.Holds(unwritable) {
					t.Error("the condition is still reported")
				}
				k.Begin(imageEntry("new"))
				k.write()
				k.want(append([]string{"new begun"}, want...)...)
				if key := keyBytes(k.file.last); keyOf(key) <= 3 {
					t.Errorf("key %d came before", k.file.last)
				}
			})
		}
	}
}

// What makes no sense is left out, and goes when its turn comes.
func TestDamagedEntries(t *testing.T) {
	path := quickFile(t)
	k := newKit(t, limits{})
	k.attachQuick(path)
	for _, a := range k.Begin(ids(3)...) {
		a.Removed(nil)
	}
	k.Begin(imageEntry("open"), imageEntry("broken"))
	k.write()
	k.close()
	damage(t, path, func(tx *bolt.Tx) error {
		return errors.Join(
			tx.Bucket(buckets[removals]).Put(keyBytes(1), []byte("{")),
			tx.Bucket(buckets[removals]).Put(keyBytes(3), []byte("{}")),
			tx.Bucket(buckets[begun]).Put(keyBytes(5), nil))
	})
	k.restart(limits{})
	k.attachQuick(path)
	defer k.close()
	k.want("open begun", "i1 removed")
	if got := k.all(1); !cmp.Equal(got, []string{"open begun", "i1 removed"}) {
		t.Errorf("one by one: %q", got)
	}
	k.Listed(func(string) bool { return false }, page.KindImage)
	k.write()
	k.want("open removed", "i1 removed")
	if k.file.count[removals] != 3 {
		t.Errorf("%d removals are in the file", k.file.count[removals])
	}
}

// Damaged pages under an open file neither panic nor stop anything.
func TestPagesGo(t *testing.T) {
	path := quickFile(t)
	k := newKit(t, limits{})
	k.attachQuick(path)
	for n := range 300 {
		k.Refused(imageEntry(fmt.Sprint(n, strings.Repeat("x", 200))))
	}
	k.write()
	if err := os.Truncate(path, 8192); err != nil { // a page past the end is a fault
		t.Fatal(err)
	}
	if _, err := k.Read(PageMost, ""); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("got %v", err)
	}
	k.Begin(imageEntry("a"))
	k.write()
	if !k.conditions.Holds(unwritable) || k.count(k.metrics.failures) != 1 {
		t.Error("the condition is not reported")
	}
	k.restart(limits{})
	k.Attach(k.db)
	if !k.conditions.Holds(unwritable) || k.file.db != nil {
		t.Error("a file that cannot be read is used")
	}
}

// Without a file all waits, bounded, and is written when there is one; a removal waits for nothing.
func TestNoFile(t *testing.T) { synctest.Test(t, testNoFile) }

// In a bubble, whose clock does not advance while a goroutine has work to do: a slow machine makes nothing late.
func testNoFile(t *testing.T) {
	k := newKit(t, limits{})
	go k.Run(t.Context())
	for n := range 2 * waitingMost {
		a := k.Begin(imageEntry(fmt.Sprint("i", n)))
		if n < 10 {
			k.Durable(t.Context(), a...)
		}
		a[0].Removed(nil)
	}
	k.Begin(imageEntry("open"))
	k.mu.Lock()
	waiting := len(k.queue.waiting)
	k.mu.Unlock()
	if waiting > waitingMost {
		t.Errorf("%d wait", waiting)
	}
	if !k.conditions.Holds(unwritable) {
		t.Error("the condition is not reported")
	}
	dir := t.TempDir()
	k.attach(dir)
	k.Close()
	if got := k.all(PageMost); len(got) != waitingMost || got[0] != "open begun" || got[1] != fmt.Sprintf("i%d removed", 2*waitingMost-1) {
		t.Errorf("%d entries, %.3q", len(got), got)
	}
	if k.conditions.Holds(unwritable) {
		t.Error("the condition is still reported")
	}
	if lost, late := k.count(k.metrics.lost), k.count(k.metrics.late); lost < waitingMost || late != 0 {
		t.Errorf("%d are lost, %d were late", lost, late)
	}
	k.close()
}

// On a full disk removals go on; what waits is written once there is room, and the state file is as
// it was.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: mounts a small tmpfs")
	}
	synctest.Test(t, testFullDisk)
}

// In a bubble, as testNoFile.
func testFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	k := newKit(t, limits{})
	k.again = 10 * time.Millisecond
	k.attach(dir)
	go k.Run(t.Context())
	a := k.Begin(ids(1)...)
	k.Durable(t.Context(), a...)
	fill := filepath.Join(dir, "fill")
	if out, err := exec.Command("dd", "if=/dev/zero", "of="+fill, "bs=4k").CombinedOutput(); err == nil {
		t.Fatalf("the disk is not full: %s", out)
	}
	a[0].Removed(&Freed{Bytes: 1})
	const more = 500
	for n := range more {
		e := imageEntry(fmt.Sprint("more", n))
		e.Detail = strings.Repeat("x", textMost)
		more := k.Begin(e)
		k.Durable(t.Context(), more...)
		more[0].Removed(&Freed{Bytes: 1})
	}
	if k.count(k.metrics.failures) == 0 || k.count(k.metrics.late) != 0 || !k.conditions.Holds(unwritable) {
		t.Fatalf("%d failures, %d late; the condition holds: %v", k.count(k.metrics.failures), k.count(k.metrics.late), k.conditions.Holds(unwritable))
	}
	copied := filepath.Join(t.TempDir(), state.File)
	b, err := os.ReadFile(filepath.Join(dir, state.File))
	if err == nil {
		err = os.WriteFile(copied, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	next := newKit(t, limits{}) // killed now
	next.attach(filepath.Dir(copied))
	if got := next.all(PageMost); len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "i0 ") {
		t.Errorf("what was there before is %q", got)
	}
	next.close()
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	await.Holds(t, time.Minute, "the history is written", func(context.Context) error {
		if k.conditions.Holds(unwritable) {
			return errors.New("it cannot be written")
		}
		return nil
	})
	k.Close()
	if got := k.all(PageMost); len(got) != more+1 || k.conditions.Holds(unwritable) {
		t.Errorf("%d entries with room again; the condition holds: %v", len(got), k.conditions.Holds(unwritable))
	}
	k.close()
}
