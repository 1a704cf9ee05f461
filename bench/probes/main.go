// Command probes measures the cost of the kernel programs that the agent attaches by default,
// compared with none attached. It also measures how reliably and how soon they report a crossing.
// docs/benchmarks-probes.md describes each figure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ebb-agent/ebb/bench/benchmark"
	"github.com/ebb-agent/ebb/bench/result"
)

// envNamespace is set in the process that has its own mount namespace.
const envNamespace = "EBB_BENCH_NAMESPACE"

// settings are the flags.
type settings struct {
	results   string
	pairs     int
	window    time.Duration
	crossings int
	steps     int
	written   int64 // bytes, for spurious events
	only      string
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == workerCommand {
		fmt.Fprintln(os.Stderr, "worker:", work(os.Args[2]))
		os.Exit(1)
	}
	var s settings
	flag.IntVar(&s.pairs, "pairs", 60, "how many pairs of windows, with and without programs, for each workload")
	flag.DurationVar(&s.window, "window", 200*time.Millisecond, "how long each window is")
	flag.IntVar(&s.crossings, "crossings", 1200, "how many random crossings, over all filesystems")
	flag.IntVar(&s.steps, "steps", 1500, "how long each way of taking space goes on while the programs are timed")
	spurious := flag.Int64("spurious-gib", 20, "how much to write below the threshold of ext4")
	flag.StringVar(&s.only, "only", "", "measure only some of: "+strings.Join(names(), ", ")+"; then nothing is written, unless -results says where")
	flag.StringVar(&s.results, "results", result.Dir, "where probes.json goes")
	again := flag.Bool("render", false, "only write RESULTS.md again, from the figures that are written")
	flag.Parse()
	s.written = *spurious * gib
	if s.pairs < 2 || s.only != "" && slices.ContainsFunc(strings.Split(s.only, ","), func(name string) bool { return !slices.Contains(names(), name) }) {
		fmt.Fprintln(os.Stderr, "bench-probes: -pairs has to be 2 at least, -only of the names that -h shows")
		os.Exit(2)
	}
	if *again {
		benchmark.Main("bench-probes", func(context.Context) error { return render(s.results) })
		return
	}
	if os.Getenv(envNamespace) == "" {
		os.Exit(inNamespace())
	}
	first()
	benchmark.Main("bench-probes", func(ctx context.Context) error { return run(ctx, s) })
}

// inNamespace runs this program again in its own mount namespace. Whatever happens to the process,
// the kernel then releases its filesystems, loop devices and pins. The process leads its own
// session and so has its own autogroup, whose priority affects no other process.
func inNamespace() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), envNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Setsid: true, Pdeathsig: unix.SIGTERM}
	runtime.LockOSThread() // Pdeathsig is sent when this thread ends; the child inherits its priority
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, priority); err != nil {
		fmt.Fprintln(os.Stderr, "bench-probes: priority:", err)
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-probes: mount namespace:", err)
		return 1
	}
	go func() {
		for range interrupts {
			cmd.Process.Signal(syscall.SIGTERM)
		}
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-probes:", err)
		return 1
	}
	return 0
}

// priority is a nice value, see nice(1), so that other processes on the machine disturb as little
// as possible. Where there are autogroups (sched(7)), the scheduler weighs these against each
// other.
const priority = -15

func first() {
	err := os.WriteFile("/proc/self/autogroup", fmt.Appendf(nil, "%d", priority), 0)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(os.Stderr, "bench-probes: priority:", err)
	}
}

func run(ctx context.Context, s settings) (err error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	dir, err := os.MkdirTemp("", "ebb-bench-probes")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b, err := newFixture(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	figures := map[string]any{}
	for _, p := range parts {
		if !s.wants(p.name) && !(p.name == partLosses && slices.ContainsFunc(workloads, func(w workload) bool { return s.wants(w.name) })) {
			continue
		}
		if err := p.measure(ctx, b, s, figures); err != nil {
			return err
		}
	}
	s.results = result.Whole(s.results, s.only)
	if err := result.Write(s.results, "probes", figures); err != nil {
		return err
	}
	return render(s.results)
}

// wants reports whether a part or a workload is to be measured.
func (s settings) wants(name string) bool {
	return s.only == "" || slices.Contains(strings.Split(s.only, ","), name)
}

// partLosses is the part with all workloads. Each workload also has a name of its own.
const partLosses = "losses"

var parts = []struct {
	name    string
	measure func(context.Context, *fixture, settings, map[string]any) error
}{
	{partLosses, measureLosses}, {"runs", measureRuns}, {"crossings", measureCrossings}, {"spurious", measureSpurious},
}

func names() (all []string) {
	for _, p := range parts {
		all = append(all, p.name)
	}
	for _, w := range workloads {
		all = append(all, w.name)
	}
	return all
}
