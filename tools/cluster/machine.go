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

	// NodeIP is the machine's own address; NodeNet has no other machine in it.
	NodeIP  = "10.254.0.2"
	NodeNet = "10.254.0.0/24"

	// SetupFailed is the exit status of a machine that could not be set up.
	SetupFailed = 125

	// stopTime is what a command has to end in good order.
	stopTime = 20 * time.Second
)

// BaseDir is where machines live unless a Config says otherwise: $EBB_CLUSTER_DIR,
// or /var/tmp/ebb-cluster.
func BaseDir() string {
	return cmp.Or(os.Getenv("EBB_CLUSTER_DIR"), defaultBase)
}

// Config is what a machine is to be.
type Config struct {
	// Name tells machines of one base directory apart, and is its host name.
	// Default "ebb".
	Name string
	// Base is the directory that machines live in. Default BaseDir().
	Base string
	// DiskBytes is the size of the filesystem on /var; the file behind it is sparse.
	// Default 4 GiB.
	DiskBytes int64
	// See are directories that the command can read wherever they are; the working
	// directory is always one.
	See []string
	// Out is a directory that the command can write to. Empty: none.
	Out string
	// Stdout and Stderr are the command's; nil is nowhere.
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
	// Those that lie in others come after them.
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

// setup is what the machine's first process is told.
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
	told, err := json.Marshal(setup{Dir: dir, See: c.See, Out: c.Out, Name: c.Name, DiskBytes: c.DiskBytes, Command: command})
	if err != nil {
		return 0, fmt.Errorf("run machine: %w", err)
	}
	return startInit(ctx, c, lock, told)
}

// startInit starts the machine's first process and waits for it. Pdeathsig is sent
// when the thread that forked ends, so this one must not before.
func startInit(ctx context.Context, c Config, lock *os.File, told []byte) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{initName, string(told)}
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

// Init does nothing, but in the machine's first process, which it never leaves.
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
