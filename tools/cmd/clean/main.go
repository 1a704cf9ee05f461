// Command clean removes the throwaway nodes, machines and control planes that a crash has
// left behind. It leaves those that a living process owns. It is harmless to run it twice,
// or with nothing to do.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/ebb-agent/ebb/tools/cluster"
	"github.com/ebb-agent/ebb/tools/node"
	"github.com/ebb-agent/ebb/tools/peers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	machines, err1 := cluster.Clean(cluster.BaseDir(), slog.Default())
	planes, err2 := peers.Clean(peers.BaseDir(), slog.Default())
	nodes, err3 := node.Clean(ctx, node.BaseDir(), slog.Default())
	stop()
	for _, name := range append(append(machines, planes...), nodes...) {
		fmt.Println("removed", name)
	}
	if err := errors.Join(err1, err2, err3); err != nil {
		fmt.Fprintln(os.Stderr, "clean:", err)
		os.Exit(1)
	}
}
