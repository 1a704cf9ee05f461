// Command throwaway-machine runs a command in a throwaway machine, or removes
// machines that a crash has left behind:
//
//	throwaway-machine run [--name NAME] [--disk BYTES] [--out DIRECTORY] COMMAND...
//	throwaway-machine clean
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/ebb-agent/ebb/tools/cluster"
)

func main() {
	cluster.Init()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "throwaway-machine:", err)
		status = 1
	}
	os.Exit(status)
}

func run(ctx context.Context, args []string) (int, error) {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	c := cluster.Config{Stdout: os.Stdout, Stderr: os.Stderr}
	flags.StringVar(&c.Name, "name", "", "tells machines apart")
	flags.Int64Var(&c.DiskBytes, "disk", 0, "size of the disk on /var")
	flags.StringVar(&c.Out, "out", "", "directory that can be written to")
	switch {
	case len(args) == 1 && args[0] == "clean":
		gone, err := cluster.Clean(cluster.BaseDir(), slog.Default())
		for _, name := range gone {
			fmt.Println("removed", name)
		}
		return 0, err
	case len(args) > 1 && args[0] == "run":
		if err := flags.Parse(args[1:]); err != nil {
			return 0, err
		}
		if flags.NArg() > 0 {
			return cluster.Run(ctx, c, flags.Args()...)
		}
	}
	return 0, fmt.Errorf("usage: throwaway-machine run [flags] COMMAND... | clean")
}
