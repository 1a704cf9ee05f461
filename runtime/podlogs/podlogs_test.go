package podlogs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const (
	entry     = "shop_web-0_3f1a7c52-9d0e-4b66-8a51-0f2f6f0f9b11"
	otherName = "shop_web-1_9b0c1b1e-1111-4b66-8a51-0f2f6f0f9b11"
)

func open(t testing.TB, path string) *Dir {
	t.Helper()
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func write(t testing.TB, path string) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte("a line\n"), 0o640); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

// tree lists everything below a directory.
func tree(t testing.TB, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && path != dir {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDirectoriesOfPodsOnly(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, entry, "app", "0.log"))
	mkdir(t, filepath.Join(root, "3f1a7c52-9d0e-4b66-8a51-0f2f6f0f9b11")) // before 1.14
	for _, foreign := range []string{"a_b", "a_b_c_d", "_b_c", "a__c", "a_b_", ".hidden", "-x", "a_b_c d", "lost+found"} {
		mkdir(t, filepath.Join(root, foreign))
	}
	write(t, filepath.Join(root, "ns_file_uid"))
	link(t, entry, filepath.Join(root, "ns_link_uid"))
	modified := time.Unix(1_700_000_000, 5000)
	for _, name := range []string{entry, "3f1a7c52-9d0e-4b66-8a51-0f2f6f0f9b11"} {
		if err := os.Chtimes(filepath.Join(root, name), modified, modified); err != nil {
			t.Fatal(err)
		}
	}
	got, err := open(t, root).Directories()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b Directory) int { return strings.Compare(a.Entry, b.Entry) })
	want := []Directory{
		{"3f1a7c52-9d0e-4b66-8a51-0f2f6f0f9b11", Pod{UID: "3f1a7c52-9d0e-4b66-8a51-0f2f6f0f9b11"}, modified},
		{entry, Pod{"shop", "web-0", "3f1a7c52-9d0e-4b66-8a51-0f2f6f0f9b11"}, modified},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestThousandsAreListedAndTwice(t *testing.T) {
	root := t.TempDir()
	for n := range 3000 {
		mkdir(t, filepath.Join(root, fmt.Sprintf("ns_pod-%d_uid-%d", n, n)))
	}
	d := open(t, root)
	for range 2 {
		if got, err := d.Directories(); err != nil || len(got) != 3000 {
			t.Fatalf("%d directories, %v", len(got), err)
		}
	}
}

func TestRemoveTakesLinksNotWhatTheyLeadTo(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "precious", "file"))
	pod := filepath.Join(root, entry)
	write(t, filepath.Join(pod, "app", "0.log"))
	write(t, filepath.Join(root, otherName, "app", "0.log"))
	link(t, outside, filepath.Join(pod, "app", "directory"))
	link(t, filepath.Join(outside, "precious", "file"), filepath.Join(pod, "1.log"))
	link(t, "../../"+otherName, filepath.Join(pod, "sibling"))
	link(t, "loop", filepath.Join(pod, "loop"))
	if err := os.Link(filepath.Join(outside, "precious", "file"), filepath.Join(pod, "hard")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(pod, "fifo"), 0o600); err != nil { // opening it would hang
		t.Fatal(err)
	}
	d := open(t, root)
	for range 2 { // what is gone is no error
		if err := d.RemoveDirectory(context.Background(), entry); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{otherName, otherName + "/app", otherName + "/app/0.log"}, tree(t, root)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"precious", "precious/file"}, tree(t, outside)); diff != "" {
		t.Error(diff)
	}
}

func TestRemoveRefusesWhatIsNoDirectoryOfLogs(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "file"))
	link(t, outside, filepath.Join(root, entry))
	write(t, filepath.Join(root, otherName))
	d := open(t, root)
	for _, name := range []string{entry, otherName, "..", ".", "", "../x", "a/b", "/etc", "ns_na\x00me_uid"} {
		err := d.RemoveDirectory(context.Background(), name)
		var path *fs.PathError
		if !errors.As(err, &path) || !strings.HasPrefix(path.Path, root) && name != ".." && name != "../x" {
			t.Errorf("%q: %v", name, err)
		}
	}
	if diff := cmp.Diff([]string{"file"}, tree(t, outside)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{entry, otherName}, tree(t, root)); diff != "" {
		t.Error(diff)
	}
}

// TestMountsStay: a mount in the logs stays with all that is in it, and everything
// beside it goes.
func TestMountsStay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: mounting needs root")
	}
	root, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "precious"))
	for _, at := range []string{entry + "/app/volume", entry + "/empty", otherName} {
		mkdir(t, filepath.Join(root, at))
	}
	write(t, filepath.Join(root, entry, "app", "0.log"))
	write(t, filepath.Join(root, entry, "app", "1.log"))
	write(t, filepath.Join(root, entry, "db", "0.log"))
	mount := func(what, at string) {
		at = filepath.Join(root, at)
		if err := unix.Mount(what, at, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
				t.Error(err)
			}
		})
	}
	mount(outside, entry+"/app/volume")
	mount(filepath.Join(root, entry, "empty"), entry+"/empty") // of the same filesystem
	mount(filepath.Join(outside, "precious"), entry+"/app/1.log")
	mount(outside, otherName)
	d := open(t, root)
	err := d.RemoveDirectory(context.Background(), entry)
	if !errors.Is(err, ErrMount) {
		t.Fatalf("removed over a mount: %v", err)
	}
	for _, at := range []string{"app/volume", "app/1.log", "empty"} {
		if !strings.Contains(err.Error(), filepath.Join(root, entry, at)) {
			t.Errorf("%s is not named: %v", at, err)
		}
	}
	if err := d.RemoveDirectory(context.Background(), otherName); !errors.Is(err, ErrMount) {
		t.Errorf("a mount itself: %v", err)
	}
	want := []string{
		entry, entry + "/app", entry + "/app/1.log", entry + "/app/volume", entry + "/app/volume/precious", entry + "/empty",
		otherName, otherName + "/precious",
	}
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Error(diff)
	}
	for _, at := range []string{entry + "/app/volume", entry + "/empty", entry + "/app/1.log"} {
		if err := unix.Unmount(filepath.Join(root, at), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.RemoveDirectory(context.Background(), entry); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"precious"}, tree(t, outside)); diff != "" {
		t.Error(diff)
	}
}

// TestSwappedWhileRemoving: somebody exchanges directories and links to elsewhere
// as fast as he can. Nothing elsewhere goes.
func TestSwappedWhileRemoving(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	for n := range 50 {
		write(t, filepath.Join(outside, "deep", fmt.Sprint(n)))
	}
	pod := filepath.Join(root, entry)
	d := open(t, root)
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		dir, trap := filepath.Join(pod, "app"), filepath.Join(root, "trap")
		os.Symlink(outside, trap)
		for {
			select {
			case <-stop:
				return
			default:
				os.MkdirAll(filepath.Join(dir, "deep"), 0o755)
				os.WriteFile(filepath.Join(dir, "deep", "1"), nil, 0o644)
				unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, trap, unix.RENAME_EXCHANGE)
				runtime.Gosched()
			}
		}
	})
	for range 500 {
		_ = d.RemoveDirectory(context.Background(), entry) // "not empty", "is a link", or done
	}
	close(stop)
	swapper.Wait()
	if got := tree(t, outside); len(got) != 51 {
		t.Fatalf("%d entries are left of 51", len(got))
	}
}

func TestRemoveHasBounds(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, entry)
	for range maxDepth + 5 {
		deep = filepath.Join(deep, "d")
	}
	write(t, filepath.Join(deep, "file"))
	d := open(t, root)
	if err := d.RemoveDirectory(context.Background(), entry); err == nil {
		t.Error("followed to any depth")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	write(t, filepath.Join(root, otherName, "app", "0.log"))
	if err := d.RemoveDirectory(ctx, otherName); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, otherName, "app", "0.log")); err != nil {
		t.Error(err)
	}
}

func TestManyFiles(t *testing.T) {
	root := t.TempDir()
	for n := range 2000 {
		write(t, filepath.Join(root, entry, "app", fmt.Sprint(n, ".log")))
	}
	if err := open(t, root).RemoveDirectory(context.Background(), entry); err != nil {
		t.Fatal(err)
	}
	if left := tree(t, root); len(left) != 0 {
		t.Errorf("%d are left", len(left))
	}
}

func TestDeadLinks(t *testing.T) {
	pods, root := t.TempDir(), t.TempDir()
	write(t, filepath.Join(pods, entry, "app", "0.log"))
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	alive, dead := "web-0_shop_app-"+id+".log", "web-1_shop_db-main-"+id+".log"
	link(t, filepath.Join(pods, entry, "app", "0.log"), filepath.Join(root, alive))
	link(t, filepath.Join(pods, otherName, "app", "0.log"), filepath.Join(root, dead))
	link(t, "round_ns_c-1.log", filepath.Join(root, "round_ns_c-1.log"))
	link(t, "/nowhere", filepath.Join(root, "foreign.log"))
	link(t, "/nowhere", filepath.Join(root, "a_b_c-1.txt"))
	write(t, filepath.Join(root, "a_b_c-2.log"))
	mkdir(t, filepath.Join(root, "a_b_c-3.log"))
	d := open(t, root)
	got, err := d.DeadLinks()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b Link) int { return strings.Compare(a.Entry, b.Entry) })
	if diff := cmp.Diff([]Link{{"round_ns_c-1.log", "1"}, {dead, id}}, got); diff != "" {
		t.Error(diff)
	}
	for range 2 {
		if err := d.RemoveLink(dead); err != nil {
			t.Error(err)
		}
	}
	for _, no := range []string{"a_b_c-2.log", "a_b_c-3.log"} {
		if err := d.RemoveLink(no); err == nil {
			t.Errorf("%s was removed, and is no link", no)
		}
	}
	want := []string{alive, "a_b_c-1.txt", "a_b_c-2.log", "a_b_c-3.log", "foreign.log", "round_ns_c-1.log"}
	slices.Sort(want)
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Error(diff)
	}
}

func TestOpen(t *testing.T) {
	root := t.TempDir()
	if _, err := Open(filepath.Join(root, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	write(t, filepath.Join(root, "file"))
	if _, err := Open(filepath.Join(root, "file")); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file: %v", err)
	}
	link(t, root, filepath.Join(root, "link"))
	if _, err := Open(filepath.Join(root, "link")); err == nil {
		t.Error("a link was opened")
	}
	open(t, root+"/link/.") // on the way links are followed
}

// TestReadOnly: in a pod that may only read the logs nothing goes, however much there is;
// the error names where, and is no longer than a line of a log should be.
func TestReadOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: mounting needs root")
	}
	root := t.TempDir()
	for n := range 300 {
		write(t, filepath.Join(root, entry, "app", fmt.Sprint(n, ".log")))
	}
	link(t, "/nowhere", filepath.Join(root, "web-0_shop_app-"+strings.Repeat("a", 64)+".log"))
	before := tree(t, root)
	flags := uintptr(unix.MS_BIND | unix.MS_RDONLY | unix.MS_REMOUNT)
	if err := errors.Join(unix.Mount(root, root, "", unix.MS_BIND, ""), unix.Mount("", root, "", flags, "")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d := open(t, root)
	err := d.RemoveDirectory(context.Background(), entry)
	if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), filepath.Join(root, entry, "app")) || len(err.Error()) > 4000 {
		t.Errorf("logs: %d bytes: %.500v", len(fmt.Sprint(err)), err)
	}
	if err := d.RemoveLink("web-0_shop_app-" + strings.Repeat("a", 64) + ".log"); !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), root) {
		t.Errorf("link: %v", err)
	}
	if diff := cmp.Diff(before, tree(t, root)); diff != "" {
		t.Error(diff)
	}
}

// Of a container's log goes the file and what it was rotated to, and nothing else: no other container's, no
// directory, nothing through a link, nothing by a path that is not the pod's.
func TestRemoveLog(t *testing.T) {
	const uid = "3f1a7c52-9d0e-4b66-8a51-0f2f6f0f9b11"
	root, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "0.log"))
	all := []string{
		entry + "/app/0.log", entry + "/app/0.log.20261126-101112", entry + "/app/0.log.20261126-091112.gz", entry + "/app/0.log.20261126-091113.gz.tmp",
		entry + "/app/1.log", entry + "/app/10.log", entry + "/app/0.logs", entry + "/other/0.log", otherName + "/app/0.log",
	}
	for _, file := range all {
		write(t, filepath.Join(root, file))
	}
	write(t, filepath.Join(root, entry, "app", "0.log.d", "kept"))
	link(t, filepath.Join(outside, "0.log"), filepath.Join(root, entry, "app", "0.log.link"))
	link(t, outside, filepath.Join(root, entry, "away"))
	link(t, entry, filepath.Join(root, "shop_web-9_"+uid))
	d := open(t, root)
	before := tree(t, root)
	for _, path := range []string{
		"", "0.log", "/var/log/pods/" + entry + "/app/0.log", filepath.Join(root, entry), filepath.Join(root, entry, "0.log"),
		root + "/" + entry + "/../" + entry + "/app/sub/0.log", filepath.Join(root, otherName, "app", "0.log"), // of another pod
		root + "/" + entry + "/../../0.log", filepath.Join(root, entry, "gone", "0.log"), filepath.Join(root, "shop_gone_"+uid, "app", "0.log"),
	} {
		if err := d.RemoveLog(path, uid); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{filepath.Join(root, entry, "away", "0.log"), filepath.Join(root, "shop_web-9_"+uid, "app", "0.log")} {
		if err := d.RemoveLog(path, uid); err == nil {
			t.Errorf("%s: no error, though a link is on the way", path)
		}
	}
	if err := d.RemoveLog(filepath.Join(root, entry, "app", "0.log"), ""); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, tree(t, root)); diff != "" {
		t.Fatalf("something went (-before +after):\n%s", diff)
	}
	for range 2 { // again does no harm
		if err := d.RemoveLog(filepath.Join(root, entry, "app", "0.log"), uid); err != nil {
			t.Fatal(err)
		}
	}
	want := slices.DeleteFunc(before, func(name string) bool {
		return name == entry+"/app/0.log" || strings.HasPrefix(name, entry+"/app/0.log.") && !strings.HasPrefix(name, entry+"/app/0.log.d")
	})
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(outside, "0.log")); err != nil {
		t.Error("what a link leads to is gone")
	}
}
