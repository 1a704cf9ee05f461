package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/stats"
	"github.com/ebb-agent/ebb/tools/node"
)

// scripted is a container of a pod that runs the scripts that the test sends it, through
// two pipes on another filesystem than the node's.
type scripted struct {
	*fixture
	pod     *node.Pod
	name    string // of the pod
	id      string
	in, out *os.File
	answers *bufio.Reader
}

const obey = `exec 3</ctl/in 4>/ctl/out; while read -r line <&3; do eval "$line"; echo $? >&4; done`

// runScripted runs a container that waits for scripts.
func (b *fixture) runScripted(name string) *scripted {
	b.Helper()
	ctl := b.TempDir()
	c := &scripted{fixture: b, name: name}
	for path, file := range map[string]**os.File{"in": &c.in, "out": &c.out} {
		path = filepath.Join(ctl, path)
		b.must(unix.Mkfifo(path, 0o600))
		f, err := os.OpenFile(path, os.O_RDWR, 0) // both ends: nobody waits for the other
		b.must(err)
		b.Cleanup(func() { f.Close() })
		*file = f
	}
	c.answers = bufio.NewReader(c.out)
	pod, err := b.node.RunPod(b.ctx, node.PodSpec{Namespace: "shop", Name: name, Containers: []node.PodContainer{{
		Name: "main", Image: ref("app"), Command: []string{"/bin/sh", "-c", obey},
		Mounts: []node.Mount{{Source: ctl, Target: "/ctl"}},
	}}})
	b.must(err)
	c.pod, c.id = pod, pod.Containers["main"]
	return c
}

// do runs a script in the container and returns when it has ended.
func (c *scripted) do(script string) {
	c.Helper()
	_, err := fmt.Fprintln(c.in, script)
	c.must(err)
	c.must(c.out.SetReadDeadline(time.Now().Add(patience)))
	answer, err := c.answers.ReadString('\n')
	c.must(err)
	if answer != "0\n" {
		c.Fatalf("%s: exit status %s", script, answer)
	}
}

// onDisk is what the files of the container's writable layer take.
func (c *scripted) onDisk() int64 {
	c.Helper()
	ctx := namespaces.WithNamespace(c.ctx, node.CRINamespace)
	mounts, err := c.node.Client().SnapshotService("overlayfs").Mounts(ctx, c.id)
	c.must(err)
	for _, option := range mounts[0].Options {
		upper, ok := strings.CutPrefix(option, "upperdir=")
		if !ok {
			continue
		}
		out, err := exec.CommandContext(c.ctx, "du", "-s", "--block-size=1", upper).Output()
		c.must(err)
		var bytes int64
		_, err = fmt.Sscan(string(out), &bytes)
		c.must(err)
		return bytes
	}
	c.Fatalf("container %s has no upper directory: %v", c.id, mounts)
	return 0
}

// writer asks the agent.
func (c *scripted) writer() (stats.Writer, error) {
	body, err := c.agent.Get(c.ctx, "/writers")
	if err != nil {
		return stats.Writer{}, err
	}
	var e stats.WritersExplanation
	err = json.Unmarshal([]byte(body), &e)
	if whole := e.Unknown == "" || c.fs == "btrfs" && strings.HasPrefix(e.Unknown, "of btrfs, metadata"); err != nil || !whole {
		return stats.Writer{}, fmt.Errorf("/writers: %w: %s", err, body)
	}
	i := slices.IndexFunc(e.Writers, func(w stats.Writer) bool { return w.ID == c.id })
	if i < 0 {
		return stats.Writer{}, fmt.Errorf("container %s of pod %s is not in %s", c.id, c.name, body)
	}
	return e.Writers[i], nil
}

// deleted is what files take that the container has deleted and holds open.
func (c *scripted) deleted() (bytes int64) {
	c.Helper()
	pid := c.pid()
	if pid == 0 {
		return 0
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	open, err := os.ReadDir(dir)
	if err != nil {
		return 0 // it has just ended
	}
	for _, fd := range open {
		path := filepath.Join(dir, fd.Name())
		var st unix.Stat_t
		if target, _ := os.Readlink(path); strings.HasSuffix(target, " (deleted)") && unix.Stat(path, &st) == nil {
			bytes += st.Blocks * 512
		}
	}
	return bytes
}

// check compares what the agent reports with the truth, within 5 %. Other
// filesystems than ext4 give back some time after a deletion: xfs by workers,
// btrfs with a commit.
func (c *scripted) check(what string) {
	c.Helper()
	if c.fs != "ext4" {
		_, err := c.node.Usage() // syncs
		c.must(err)
	}
	var got stats.Writer
	c.eventually("what "+c.name+" takes after "+what, func() (err error) {
		want := c.onDisk() + c.deleted()
		if got, err = c.writer(); err != nil {
			return err
		}
		if now := c.onDisk() + c.deleted(); now != want {
			return fmt.Errorf("on disk were %d, and now are %d", want, now) // written back meanwhile
		}
		if slack := max(want/20, 32<<10); got.NetBytes < want-slack || got.NetBytes > want+slack {
			err = fmt.Errorf("net growth is %d, on disk are %d", got.NetBytes, want)
			if c.fs == "ext4" {
				c.Fatalf("%s, after %s: %v", c.name, what, err)
			}
			return err
		}
		c.Logf("%s, after %s: %d of %d", c.name, what, got.NetBytes, want)
		return nil
	})
	if got.Namespace != "shop" || got.Pod != c.name || got.Container != "main" {
		c.Errorf("%s is called %+v", c.name, got)
	}
}

// pid is that of the container's process, 0 if it has ended.
func (c *scripted) pid() uint32 {
	c.Helper()
	ctx := namespaces.WithNamespace(c.ctx, node.CRINamespace)
	container, err := c.node.Client().LoadContainer(ctx, c.id)
	c.must(err)
	task, err := container.Task(ctx, nil)
	if errdefs.IsNotFound(err) {
		return 0
	}
	c.must(err)
	status, err := task.Status(ctx)
	if errdefs.IsNotFound(err) || err == nil && status.Status != containerd.Running {
		return 0
	}
	c.must(err)
	return task.Pid()
}

func (c *scripted) cgroup() string {
	c.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.pid()))
	c.must(err)
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path
		}
	}
	c.Fatal("no cgroup v2 hierarchy: ", string(text))
	return ""
}

// nest moves the container's process into a cgroup below its own.
func (c *scripted) nest(hierarchy, name string) {
	c.Helper()
	dir := filepath.Join(hierarchy, c.cgroup(), name)
	c.must(os.Mkdir(dir, 0o755))
	c.must(os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(fmt.Sprint(c.pid())), 0))
}

func (c *scripted) remove() {
	c.Helper()
	c.must(c.pod.Remove(context.WithoutCancel(c.ctx)))
}

// unified finds the v2 hierarchy.
func unified(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			return dir
		}
	}
	t.Skip("SKIPPED: no cgroup v2 hierarchy is mounted")
	return ""
}

func TestWhoFillsTheDisk(t *testing.T) {
	hierarchy := unified(t)
	whoFills := func(t *testing.T, b *fixture) {
		b.config.Writers.Top = 2
		b.start()
		web, db := b.runScripted("web"), b.runScripted("db")
		t.Cleanup(web.remove)

		web.do("dd if=/dev/zero of=/a bs=64k count=160 2>/dev/null")
		db.do("dd if=/dev/zero of=/mine bs=64k count=32 2>/dev/null; sync")
		web.check("writing")
		db.check("writing")
		web.do("dd if=/dev/zero of=/a bs=64k count=160 conv=notrunc 2>/dev/null; sync")
		web.check("overwriting")
		rest := "1M"
		if b.fs == "btrfs" {
			rest = "0" // while a part of an extent is in use it takes all its space, which du does not know
		}
		web.do("dd if=/dev/zero of=/b bs=64k count=64 2>/dev/null; truncate -s " + rest + " /a")
		web.check("truncating")

		// The agent dies; the kernel goes on.
		b.kill()
		web.do("rm /b; dd if=/dev/zero of=/c bs=64k count=48 2>/dev/null")
		b.start()
		web.check("a time without agent")

		web.do("exec 7>/open; dd if=/dev/zero bs=64k count=64 2>/dev/null >&7; rm /open")
		web.check("deleting an open file")
		web.nest(hierarchy, "own (deleted)\"")
		web.do("dd if=/dev/zero of=/nested bs=64k count=64 2>/dev/null")
		web.check("writing in a cgroup of its own")
		db.check("all that")

		growth := fmt.Sprintf(`ebb_node_container_growth_bytes{container="main",namespace="shop",pod=%q}`, "web")
		if w, err := web.writer(); err != nil || b.metric(growth) != float64(w.NetBytes) {
			t.Errorf("%s is %g; /writers reports %+v, %v", growth, b.metric(growth), w, err)
		}
		ends(t, b, hierarchy, web, db)
	}
	eachRuntime(t, func(t *testing.T, flavor node.Flavor) { whoFills(t, newFixture(t, flavor, plain("app", mib))) })
	eachFilesystem(t, []string{"xfs", "btrfs"}, func(t *testing.T, kind string) {
		whoFills(t, newFixtureOn(t, kind, node.Debian, plain("app", mib)))
	})
}

// ends checks what is left of containers that end.
func ends(t *testing.T, b *fixture, hierarchy string, web, db *scripted) {
	t.Helper()
	path := db.cgroup()
	ctx := namespaces.WithNamespace(b.ctx, node.CRINamespace)
	container, err := b.node.Client().LoadContainer(ctx, db.id)
	b.must(err)
	task, err := container.Task(ctx, nil)
	b.must(err)
	b.must(task.Kill(ctx, unix.SIGKILL))
	b.eventually("the end of its cgroup", func() error {
		if _, err := os.Stat(filepath.Join(hierarchy, path)); err == nil {
			return fmt.Errorf("%s is there", path)
		}
		return nil
	})
	db.check("its end") // its files are still there
	if w, err := db.writer(); err != nil || !w.Ended {
		t.Errorf("it ended, but is %+v, %v", w, err)
	}
	db.remove()
	b.eventually("db to be forgotten", func() error {
		body, err := b.agent.Get(b.ctx, "/writers")
		if err == nil && strings.Contains(body, db.id) {
			err = fmt.Errorf("it is in %s", body)
		}
		return err
	})
	web.check("the other one's end")
	web.do("exec 7>&-")
	web.check("closing")
}
