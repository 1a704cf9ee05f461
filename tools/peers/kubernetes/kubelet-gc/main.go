// Command kubelet-gc lets the kubelet's own collector of containers decide about
// small worlds: one world a line on its standard input, as JSON, and for each one
// line on its standard output that says what the collector did.
//
// The collector is k8s.io/kubernetes/pkg/kubelet/kuberuntime as it is, reached
// through the runtime manager that the kubelet makes it with. Around it are stand-ins
// that hold the world: for the container runtime, for the file system, and for the
// pod workers, of which it asks two questions. It is a program and not a
// test, and is spoken to in lines, because its module must not know ebb's: the
// dependencies of the two would be raised to each other's versions, and the
// kubelet built here would no longer be the one that was released.
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

// rounds is how often the collector looks at each world: once, and again at what it
// has left, where nothing should be left to do.
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
	// Loggers without a sink: whatever the collector meets shows in its calls.
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
