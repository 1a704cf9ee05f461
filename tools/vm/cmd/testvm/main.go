// Command testvm runs this repository's tests on Debian's kernels. See package
// vm.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

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
	table     string
	cpus      int
	memoryMiB int
	timeout   time.Duration
}

func root() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "testvm",
		Short: "Run the tests on Debian's kernels, in an emulated machine",
		Long: "Known kernels: " + strings.Join(vm.Kernels, ", ") + `.
The logs of the machines are kept in the directory "vm" of the cache ($EBB_CACHE).`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.kernels, "kernels", vm.Kernels[:1], `which kernels to boot; "all" for all of them`)
	f.StringVar(&o.table, "table", "", "a page to write the table of results into")
	f.IntVar(&o.cpus, "cpus", 2, "CPUs of a machine")
	f.IntVar(&o.memoryMiB, "memory", 3072, "memory of a machine, in MiB")
	f.DurationVar(&o.timeout, "timeout", 15*time.Minute, "how long a machine may run")
	return cmd
}

// run tests kernel by kernel; one that fails does not stop the others.
func (o options) run(ctx context.Context) error {
	if len(o.kernels) == 1 && o.kernels[0] == "all" {
		o.kernels = vm.Kernels
	}
	cache, err := vm.CacheDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(cache, "vm"), 0o755); err != nil {
		return err
	}
	builder, err := vm.NewBuilder(ctx)
	if err != nil {
		return err
	}
	defer builder.Close()
	var columns []vm.Column
	var errs []error
	for _, name := range o.kernels {
		column, err := o.test(ctx, cache, builder, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("kernel %s: %w", name, err))
		}
		if ctx.Err() != nil {
			return errors.Join(errs...)
		}
		columns = append(columns, column)
	}
	text := vm.Table(time.Now(), columns)
	fmt.Println(text)
	if o.table != "" {
		errs = append(errs, vm.WriteTable(o.table, text))
	}
	return errors.Join(errs...)
}

func (o options) test(ctx context.Context, cache string, b *vm.Builder, name string) (vm.Column, error) {
	column := vm.Column{Name: name}
	kernel, err := vm.Fetch(ctx, cache, name)
	if err != nil {
		return column, err
	}
	column.Package = kernel.Package
	initramfs, order, err := b.Build(kernel)
	if err != nil {
		return column, err
	}
	defer os.Remove(initramfs)
	m := vm.Machine{
		Kernel: kernel.Image(), Initramfs: initramfs, Order: order,
		CPUs: o.cpus, MemoryMiB: o.memoryMiB, Timeout: o.timeout,
		Console: os.Stdout, Log: filepath.Join(cache, "vm", name+".log"),
	}
	fmt.Printf("--- %s (log: %s)\n", kernel.Package, m.Log)
	column.Report, err = m.Run(ctx)
	return column, err
}
