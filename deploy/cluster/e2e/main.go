package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ebb-agent/ebb/tools/cluster"
)

// deadline bounds a whole run. It is many times the expected duration, because machines
// are busy.
const deadline = 45 * time.Minute

// options are the command-line flags; the inner process gets the same ones.
type options struct {
	inside          bool
	binaries, helm  string
	out, transcript string
	only, images    string
}

func main() {
	cluster.Init()
	var o options
	flag.BoolVar(&o.inside, "inside", false, "of the process inside of the machine")
	flag.StringVar(&o.binaries, "binaries", "", "directory with Kubernetes and etcd (tools/peers/build)")
	flag.StringVar(&o.helm, "helm", "", "helm's binary (tools/helm/build)")
	flag.StringVar(&o.out, "out", "bin/e2e-cluster-logs", "directory for logs")
	flag.StringVar(&o.transcript, "transcript", "", "page to put the transcript into, between its marks; pictures go to images beside it")
	flag.StringVar(&o.images, "write-images", "", "only write the images of a cluster into this directory")
	flag.StringVar(&o.only, "only", "", "run only scenarios of these names, with commas between: for those who work on one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, errors.New("the run takes too long"))
	status, err := 0, error(nil)
	switch {
	case o.images != "":
		err = writeImages(o.images)
	case o.inside:
		err = inside(ctx, o)
	default:
		status, err = outside(ctx, o)
	}
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e-cluster:", err)
		status = 1
	}
	os.Exit(status)
}

// outside prepares what needs the real machine, and starts the throwaway one.
func outside(ctx context.Context, o options) (int, error) {
	var err error
	if o.out, err = filepath.Abs(o.out); err != nil {
		return 0, err
	}
	if err := errors.Join(os.RemoveAll(o.out), os.MkdirAll(o.out, 0o755)); err != nil {
		return 0, fmt.Errorf("make directory for logs: %w", err)
	}
	if err := writeImages(o.out); err != nil {
		return 0, err
	}
	goes, err := keepGo(ctx)
	if err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	args := append([]string{self}, os.Args[1:]...)
	args = append(args, "--inside", "--out="+o.out)
	status, err := cluster.Run(ctx, cluster.Config{
		See:       append([]string{filepath.Dir(self), o.binaries, absDir(o.helm)}, goes...),
		DiskBytes: diskBytes, Out: o.out, Stdout: os.Stdout, Stderr: os.Stderr,
	}, args...)
	if err != nil || status != 0 {
		return status, err
	}
	if o.transcript != "" {
		err = errors.Join(paste(o.transcript, filepath.Join(o.out, transcriptFile)), copyPictures(o.out, filepath.Join(filepath.Dir(o.transcript), "images")))
	}
	return status, err
}

// absDir returns the absolute directory of a file; for "" the parent of the working
// directory.
func absDir(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return "/"
	}
	return filepath.Dir(path)
}
