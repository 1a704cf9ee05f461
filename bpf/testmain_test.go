package bpf

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Environment of the processes these tests start from their own binary.
const (
	envNamespace = "EBB_BPF_TEST_NAMESPACE" // set: mounts are private already
	envRole      = "EBB_BPF_TEST_ROLE"      // what a helper process is to do
	envPinDir    = "EBB_BPF_TEST_PIN_DIR"
	envCrashStep = "EBB_BPF_TEST_CRASH_STEP"
	envMaxLayers = "EBB_BPF_TEST_MAX_LAYERS"

	envCapabilities = "EBB_BPF_TEST_CAPABILITIES" // those of needed that it keeps
	envModule       = "EBB_BPF_TEST_MODULE"       // a module whose types are to be noise
	envUnmount      = "EBB_BPF_TEST_UNMOUNT"      // what it is to do without
)

// TestMain runs the tests in a mount namespace of their own. Whatever happens
// to them, the kernel takes their mounts back when the last process is gone,
// and with the mounts the pins and loop devices.
func TestMain(m *testing.M) {
	// A history on a real disk takes a second; "make test-long" has more of them.
	if err := flag.Set("rapid.checks", "10"); err != nil {
		panic(err)
	}
	switch {
	case os.Getenv(envRole) != "":
		os.Exit(helper(os.Getenv(envRole)))
	case os.Getenv(envNamespace) != "":
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, "make mounts private:", err)
			os.Exit(1)
		}
		if err := leaveLoops(); err != nil {
			fmt.Fprintln(os.Stderr, "leave the loop mounts of others:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	case os.Geteuid() != 0 || fuzzing():
		os.Exit(m.Run())
	}
	os.Exit(inNamespace())
}

// leaveLoops gives back the copies of loop mounts that came with the namespace, and of the
// overlays of containers, which lie on them: each would keep the filesystem of somebody else's
// test alive after its end.
func leaveLoops() error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line) // device, mount point, type, …
		if !strings.HasPrefix(fields[0], "/dev/loop") && fields[2] != "overlay" || fields[1] == "/" {
			continue
		}
		if err := unix.Unmount(fields[1], unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmount %s: %w", fields[1], err)
		}
	}
	return nil
}

// fuzzing: a fuzz run talks to its workers over inherited files, and needs
// neither root nor mounts.
func fuzzing() bool {
	return slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.fuzz") })
}

func inNamespace() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), envNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run tests in a mount namespace:", err)
		return 1
	}
	return 0
}

// helper is what the test binary does when a test starts it as a process of
// its own: load and die at a given step, or load as somebody without rights.
func helper(role string) int {
	if err := deprive(); err != nil {
		fmt.Println(err)
		return 1
	}
	o := Options{PinDir: os.Getenv(envPinDir)}
	fmt.Sscan(os.Getenv(envMaxLayers), &o.MaxLayers)
	if role == "crash" {
		var left int
		fmt.Sscan(os.Getenv(envCrashStep), &left)
		o.step = func(step string) error {
			if left--; left == 0 {
				fmt.Println(step)
				unix.Kill(os.Getpid(), unix.SIGKILL)
				select {}
			}
			return nil
		}
	}
	p, err := Load(context.Background(), o)
	if err != nil {
		fmt.Println(err)
		if errors.Is(err, ErrNotPermitted) {
			return exitNotPermitted
		}
		return 1
	}
	for _, s := range p.Status() {
		if !s.Attached {
			fmt.Printf("%s of %s: %s\n", s.Name, s.Object, s.Reason)
		}
	}
	if err := p.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

const exitNotPermitted = 13

// deprive takes from a helper process what its environment names: mounts, which
// are its own, and capabilities. Those are gone once it has become a new program:
// root gets what its bounding set leaves (capabilities(7)).
func deprive() error {
	if list := os.Getenv(envUnmount); list != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		for _, dir := range strings.Split(list, ":") {
			for unix.Unmount(dir, unix.MNT_DETACH) == nil {
			}
		}
	}
	if module := os.Getenv(envModule); module != "" {
		if err := addModuleTypes(module); err != nil {
			return err
		}
	}
	keep, set := os.LookupEnv(envCapabilities)
	if !set {
		return nil
	}
	runtime.LockOSThread() // the bounding set is a thread's
	for _, c := range needed {
		if slices.Contains(strings.Fields(keep), c.Name) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c.bit), 0, 0, 0); err != nil {
			return fmt.Errorf("drop %s: %w", c.Name, err)
		}
	}
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, envCapabilities+"=") && !strings.HasPrefix(e, envUnmount+"=") {
			env = append(env, e)
		}
	}
	return unix.Exec("/proc/self/exe", os.Args, env)
}

// addModuleTypes lets this process see types of one more module, which are noise.
func addModuleTypes(module string) error {
	const types = "/sys/kernel/btf"
	entries, err := os.ReadDir(types)
	if err != nil {
		return err
	}
	seen := map[string][]byte{module: []byte(strings.Repeat("no types", 8))}
	for _, e := range entries {
		if seen[e.Name()], err = os.ReadFile(types + "/" + e.Name()); err != nil {
			return err
		}
	}
	errs := []error{
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("types", types, "tmpfs", 0, ""),
	}
	for name, b := range seen {
		errs = append(errs, os.WriteFile(types+"/"+name, b, 0o444))
	}
	return errors.Join(errs...)
}

// helperCommand prepares a helper process.
func helperCommand(role, pinDir string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), envRole+"="+role, envPinDir+"="+pinDir)
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	return cmd
}
