// Command kubelet-gc lets the kubelet's own container collector decide about small
// worlds. It reads one world a line, as JSON, from standard input. For each world it
// writes one line with the collector's actions to standard output.
//
// The collector is the unchanged k8s.io/kubernetes/pkg/kubelet/kuberuntime, reached
// through the runtime manager by which the kubelet creates it. Stand-ins hold the
// world: for the container runtime, for the file system, and for the pod workers, of
// which the collector asks two questions.
//
// kubelet-gc is a separate program that talks in lines, because its module must not
// contain ebb's. In one module the dependencies of both would be raised to each other's
// versions, and the kubelet built here would differ from the released one.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/klog/v2"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// rounds is how often the collector runs on each world. In the second round nothing
// should be left to do.
const rounds = 2

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-gc:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) (err error) {
	scratch, err := os.MkdirTemp("", "kubelet-gc-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	// Loggers without a sink: the calls show everything that the collector does.
	klog.SetLogger(klog.Logger{})
	ctx := klog.NewContext(context.Background(), klog.Logger{})
	w := &world{}
	manager, err := newManager(ctx, scratch, w)
	if err != nil {
		return err
	}
	answers := bufio.NewWriter(out)
	worlds := json.NewDecoder(bufio.NewReader(in))
	encoder := json.NewEncoder(answers)
	for {
		var d description
		if err := worlds.Decode(&d); err != nil {
			if errors.Is(err, io.EOF) {
				return answers.Flush()
			}
			return fmt.Errorf("read world: %w", err)
		}
		w.load(d, time.Now())
		policy := kubecontainer.GCPolicy{
			MinAge: d.MinAge, MaxPerPodContainer: d.MaxPerPodContainer, MaxContainers: d.MaxContainers,
		}
		var a answer
		for range rounds {
			w.calls = []string{}
			if err := manager.GarbageCollect(ctx, policy, d.SourcesReady, d.EvictNonDeleted); err != nil {
				return fmt.Errorf("collect: %w", err)
			}
			a.Rounds = append(a.Rounds, w.calls)
		}
		if err := encoder.Encode(a); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
	}
}
