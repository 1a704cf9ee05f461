// Command manifests writes the generated files of the Helm chart, and those generated
// from it: see package chart.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/ebb-agent/ebb/tools/chart"
)

func main() {
	root := flag.String("root", ".", "the repository's root")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := chart.Generate(ctx, *root); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}
