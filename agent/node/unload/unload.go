package unload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/agent/node/config"
	"github.com/ebb-agent/ebb/agent/node/lock"
	"github.com/ebb-agent/ebb/agent/node/state"
	"github.com/ebb-agent/ebb/agent/program"
	"github.com/ebb-agent/ebb/bpf"
	"github.com/ebb-agent/ebb/runtime/containerd"
	"github.com/ebb-agent/ebb/runtime/containerd/layout"
)

// Options configure Run.
type Options struct {
	Config    config.Config
	Root      string        // where the node's root directory is; "": it is /
	Wait      time.Duration // for an agent to end
	KeepState bool
	Self      lock.Holder
	Out       io.Writer // gets a line for each thing that is done
	Log       *slog.Logger
}

// Run unloads. The error joins the errors of all steps. If an agent runs, the error is a
// lock.ErrHeld, and nothing was done.
func Run(ctx context.Context, o Options) error {
	if err := program.EnterRoot(o.Root); err != nil {
		return err
	}
	l, err := lock.Acquire(ctx, o.Config.State.LockFile, o.Wait, o.Self)
	if err != nil {
		return err
	}
	// The pins come first: an agent of an older version holds them, and knows no lock file.
	if err := unpin(o); err != nil {
		return errors.Join(err, l.Release())
	}
	errs := []error{clearRuntime(ctx, o), removeState(o), removeSocket(o.Config.Server.AdminSocket), removeKubeletDirectory(o.Config.Filesystems.Kubelet.Path)}
	if err := errors.Join(errs...); err != nil {
		return errors.Join(err, l.Remove())
	}
	if err := l.Remove(); err != nil {
		return err
	}
	return o.say("nothing of ebb is left on this node")
}

func (o *Options) say(format string, args ...any) error {
	_, err := fmt.Fprintf(o.Out, format+"\n", args...)
	return err
}

func unpin(o Options) error {
	dir := o.Config.Kernel.PinDirectory
	_, there := os.Lstat(dir)
	if err := bpf.Unload(dir); err != nil {
		return err
	}
	if there != nil {
		return o.say("kernel: no programs in %s", dir)
	}
	return o.say("kernel: programs and pins in %s removed", dir)
}

// clearRuntime removes what ebb left in containerd. If containerd does not answer, that is an
// error: there may be something to clear when it is back.
func clearRuntime(ctx context.Context, o Options) error {
	socket, err := layout.Socket(o.Config.Runtime.Socket)
	if err != nil {
		return fmt.Errorf("clear containerd: %w", err)
	}
	rt, err := containerd.Connect(ctx, socket, o.Log)
	if err != nil {
		return fmt.Errorf("clear containerd: %w", err)
	}
	done, err := rt.Clear(ctx)
	if err := errors.Join(err, rt.Close()); err != nil {
		return fmt.Errorf("clear containerd: %w", err)
	}
	return o.say("containerd: %d images got their names back, %d leases given back", done.Restored, done.Leases)
}

// removeSocket removes the admin socket of an agent that was killed. A file of another type is not
// ebb's, and stays.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("remove admin socket: %w", err)
	}
	return nil
}

// KubeletDirectory is the empty directory that the chart has the kubelet create in its own
// directory. The agent's pod mounts it in place of the whole directory.
const KubeletDirectory = "ebb"

// removeKubeletDirectory removes [KubeletDirectory] from the kubelet's directory. A directory with
// content is not the chart's, and stays.
func removeKubeletDirectory(kubelet string) error {
	if kubelet == "" {
		return nil
	}
	err := unix.Rmdir(filepath.Join(kubelet, KubeletDirectory))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return fmt.Errorf("remove the directory in the kubelet's: %w", err)
}

func removeState(o Options) error {
	dir := o.Config.State.Directory
	if o.KeepState {
		return o.say("state: %s kept", dir)
	}
	n, err := state.Remove(dir)
	if err != nil {
		return err
	}
	switch left, err := os.ReadDir(dir); {
	case errors.Is(err, fs.ErrNotExist) && n == 0:
		return o.say("state: none in %s", dir)
	case errors.Is(err, fs.ErrNotExist):
		return o.say("state: %s removed", dir)
	case err == nil && len(left) > 0:
		return o.say("state: %s removed; the directory has %d other files and stays", dir, len(left))
	}
	return o.say("state: what was in %s removed; the directory stays, it is mounted", dir)
}
