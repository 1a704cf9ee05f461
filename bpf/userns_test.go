package bpf

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A pod with hostUsers: false: its processes are root in a user namespace only, and its
// layers are mounted with the namespace's IDs. They are still the layers that user space
// knows by their directories.
func TestUserNamespace(t *testing.T) {
	p := load(t, Options{})
	base := newExt4(t).dir // tmpfs, where the machine has nothing else, cannot be mounted so before Linux 6.3
	top, mapped := filepath.Join(base, "top"), filepath.Join(base, "mapped")
	mkdir(t, top)
	mkdir(t, mapped)
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 65536}}

	holder := overlay(t).command("cat")
	holder.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER
	holder.SysProcAttr.UidMappings, holder.SysProcAttr.GidMappings = ids, ids
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", holder.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer namespace.Close()
	tree, err := unix.OpenTree(unix.AT_FDCWD, top, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(tree)
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(namespace.Fd())}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, attr); err != nil {
		t.Fatal(err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, mapped, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unmount(t, mapped) })
	in.Close()
	if err := holder.Wait(); err != nil {
		t.Fatal(err)
	}

	r := overlay(t, mapped, busyboxLayer(t))
	key := keyOfPath(t, top)
	track(t, p, key)
	before := now(t)
	cmd := r.command("id", "-u")
	cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER
	cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = ids, ids
	cmd.SysProcAttr.Credential = &syscall.Credential{}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "0\n" {
		t.Fatalf("%v: %s", err, out)
	}
	wantUsedSince(t, p, key, before)
}
