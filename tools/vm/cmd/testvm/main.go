// Command testvm runs this repository's tests on Debian's kernels. See package
// vm.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/ebb-agent/ebb/tools/vm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "testvm:", err)
		stop()
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	kernels   []string
	selection vm.Selection
	table     string
	atOnce    int
	parameter []string
	cpus      int
	memoryMiB int
	timeout   time.Duration
}

func root() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "testvm",
		Short: "Run the tests on Debian's kernels, in an emulated machine",
		Long: "Known kernels: " + strings.Join(vm.Kernels, ", ") + `; for arm64, emulated
as all, but with programs from Debian's arm64 packages: ` + strings.Join(vm.ArmKernels, ", ") + `.
The logs of the machines are kept in the directory "vm" of the cache ($EBB_CACHE).`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.kernels, "kernels", vm.Kernels[:2], `which kernels to boot; "all" for all of them`)
	f.StringVar(&o.selection.Package, "package", "", "run the tests of this package only, such as bpf")
	f.StringVar(&o.selection.Run, "run", "", "with --package: run only these tests, those that are usually left out included")
	f.BoolVar(&o.selection.Quick, "quick", false, "leave out what takes long: half of the time, and most of what differs between kernels")
	f.BoolVar(&o.selection.Load, "load", false, "run no tests: only load and attach every kernel program")
	f.BoolVar(&o.selection.Reboot, "reboot", false, "run the one test that resets the machine in the middle, and goes on after a second boot with the same disk")
	f.IntVar(&o.selection.Count, "count", 0, "with --package: run each test so many times")
	cmd.MarkFlagsMutuallyExclusive("quick", "package", "load", "reboot")
	f.StringVar(&o.table, "table", "", "a page to write the table of results into")
	f.StringArrayVar(&o.parameter, "parameter", nil, "of the kernels, besides those of every machine, such as nohz_full=1")
	f.IntVar(&o.atOnce, "at-once", 2, "how many machines to run side by side: one alone leaves CPUs idle")
	f.IntVar(&o.cpus, "cpus", 2, "CPUs of a machine")
	f.IntVar(&o.memoryMiB, "memory", 3072, "memory of a machine, in MiB")
	f.DurationVar(&o.timeout, "timeout", 45*time.Minute, "how long a machine may run")
	return cmd
}

// run tests all kernels. If one fails, the others continue.
func (o options) run(ctx context.Context) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("machines get this one's programs, and are tried on amd64 alone; this one is %s", runtime.GOARCH)
	}
	if len(o.kernels) == 1 && o.kernels[0] == "all" {
		o.kernels = vm.Kernels
	}
	if len(o.kernels) == 0 {
		return errors.New("no kernel to boot")
	}
	kind := vm.Arch(o.kernels[0])
	for _, name := range o.kernels {
		if vm.Arch(name) != kind {
			return fmt.Errorf("kernels %s and %s: one kind of machine at a time", o.kernels[0], name)
		}
	}
	cache, err := vm.CacheDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(cache, "vm"), 0o755); err != nil {
		return err
	}
	builder, err := vm.NewBuilder(ctx, cache, kind, o.selection)
	if err != nil {
		return err
	}
	defer builder.Close()
	columns := make([]vm.Column, len(o.kernels))
	errs := make([]error, len(o.kernels))
	var console sync.Mutex
	var group errgroup.Group
	group.SetLimit(max(1, o.atOnce))
	for i, name := range o.kernels {
		group.Go(func() error {
			t := test{options: o, cache: cache, builder: builder, console: vm.Prefixed(os.Stdout, &console, name+": ")}
			column, err := t.run(ctx, name)
			if err != nil {
				err = fmt.Errorf("kernel %s: %w", name, err)
			}
			columns[i], errs[i] = column, err
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	if ctx.Err() != nil {
		return errors.Join(errs...)
	}
	text := vm.Table(time.Now(), columns)
	fmt.Println("\n" + text)
	if o.table != "" {
		errs = append(errs, vm.WriteTable(o.table, kind, text))
	}
	return errors.Join(errs...)
}

// test holds what the tests of several kernels share.
type test struct {
	options
	cache   string
	builder *vm.Builder
	console io.Writer
}

func (t test) run(ctx context.Context, name string) (vm.Column, error) {
	column := vm.Column{Name: name}
	kernel, err := vm.Fetch(ctx, t.cache, name)
	if err != nil {
		return column, err
	}
	column.Package = kernel.Package
	initramfs, order, err := t.builder.Build(kernel)
	if err != nil {
		return column, err
	}
	defer os.Remove(initramfs)
	m := vm.Machine{
		Arch: vm.Arch(name), Kernel: kernel.Image(), Initramfs: initramfs, Order: order,
		CPUs: t.cpus, MemoryMiB: t.memoryMiB, Timeout: t.timeout, Parameters: t.parameter,
		Console: t.console, Log: filepath.Join(t.cache, "vm", name+".log"),
	}
	fmt.Fprintf(t.console, "%s (log: %s)\n", kernel.Package, m.Log)
	begun := time.Now()
	boot := m.Run
	if t.selection.Reboot {
		boot = m.Reboot
	}
	column.Report, err = boot(ctx)
	fmt.Fprintf(t.console, "ended after %s\n", time.Since(begun).Round(time.Second))
	return column, err
}
