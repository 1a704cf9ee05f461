package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/ebb-agent/ebb/tools/cgroup"
	"github.com/ebb-agent/ebb/tools/owned"
)

const (
	defaultBase = "/var/tmp/ebb-cluster"

	// NodeIP is the machine's own address. NodeNet contains no other machine.
	NodeIP  = "10.254.0.2"
	NodeNet = "10.254.0.0/24"

	// SetupFailed is the exit status of a machine that could not be set up.
	SetupFailed = 125

	// stopTime is how long a command may take to end after SIGTERM.
	stopTime = 20 * time.Second
)

// BaseDir is the default for Config.Base: $EBB_CLUSTER_DIR, or /var/tmp/ebb-cluster.
func BaseDir() string {
	return cmp.Or(os.Getenv("EBB_CLUSTER_DIR"), defaultBase)
}

// Config describes a machine.
type Config struct {
	// Name identifies a machine in its base directory, and is its host name. Default
	// "ebb".
	Name string
	// Base is the directory that holds machines. Default BaseDir().
	Base string
	// DiskBytes is the size of the filesystem on /var; the file behind it is sparse.
	// Default 4 GiB.
	DiskBytes int64
	// See lists directories of the real machine that the command can read at the same
	// path. The working directory is always included.
	See []string
	// Out is a directory that the command can write to, or "".
	Out string
	// Stdout and Stderr receive the command's output; nil discards it.
	Stdout, Stderr io.Writer
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

func (c Config) complete() (Config, error) {
	c.Name = cmp.Or(c.Name, "ebb")
	c.Base = cmp.Or(c.Base, BaseDir())
	c.DiskBytes = cmp.Or(c.DiskBytes, 4<<30)
	var errs []error
	if !validName.MatchString(c.Name) {
		errs = append(errs, fmt.Errorf("name %q: want %s", c.Name, validName))
	}
	if !filepath.IsAbs(c.Base) || filepath.Clean(c.Base) != c.Base {
		errs = append(errs, fmt.Errorf("base %q: want a clean absolute path", c.Base))
	}
	wd, err := os.Getwd()
	errs = append(errs, err)
	// A directory inside another one must come after it.
	c.See = append([]string{wd}, c.See...)
	if c.Out != "" {
		c.See = append(c.See, c.Out)
	}
	for _, dir := range c.See {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
			errs = append(errs, fmt.Errorf("directory %q: want a clean absolute path", dir))
		}
	}
	if c.DiskBytes < 256<<20 {
		errs = append(errs, fmt.Errorf("disk of %d bytes: want 256 MiB or more", c.DiskBytes))
	}
	return c, errors.Join(errs...)
}

// setup is the input of the machine's first process.
type setup struct {
	Dir, Out, Name string
	See            []string
	DiskBytes      int64
	Command        []string
}

const initName = "ebb-cluster-init"

// Run makes a machine, runs a command in it as root, removes it, and returns the
// command's exit status. When ctx is done, the command gets SIGTERM and 20 seconds.
// The calling program's main must begin with [Init].
func Run(ctx context.Context, c Config, command ...string) (status int, err error) {
	c, err = c.complete()
	if err != nil {
		return 0, fmt.Errorf("run machine: %w", err)
	}
	if os.Geteuid() != 0 {
		return 0, fmt.Errorf("run machine: %w: namespaces and mounts need root", os.ErrPermission)
	}
	dir := filepath.Join(c.Base, c.Name)
	lock, err := owned.Claim(dir, release)
	if err != nil {
		return 0, fmt.Errorf("run machine: %w", err)
	}
	defer func() {
		err = errors.Join(err, owned.Remove(dir, release), lock.Close())
	}()
	if err := cgroup.Make(Cgroup(dir)); err != nil {
		return 0, fmt.Errorf("run machine: %w", err)
	}
	encoded, err := json.Marshal(setup{Dir: dir, See: c.See, Out: c.Out, Name: c.Name, DiskBytes: c.DiskBytes, Command: command})
	if err != nil {
		return 0, fmt.Errorf("run machine: %w", err)
	}
	return startInit(ctx, c, lock, encoded)
}

// startInit starts the machine's first process and waits for it. The kernel sends
// Pdeathsig when the thread that forked ends, so the goroutine keeps its thread.
func startInit(ctx context.Context, c Config, lock *os.File, encoded []byte) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{initName, string(encoded)}
	cmd.Stdout, cmd.Stderr = c.Stdout, c.Stderr
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("run machine: %w", err)
	}
	return 0, nil
}

// Init must be called first in main. In the machine's first process it runs the machine
// and never returns; in all others it does nothing.
func Init() {
	if len(os.Args) != 2 || os.Args[0] != initName {
		return
	}
	status, err := beInit(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "throwaway machine:", strings.ReplaceAll(err.Error(), "\n", "\n\t"))
		status = SetupFailed
	}
	os.Exit(status)
}
