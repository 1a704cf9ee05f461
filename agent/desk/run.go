package desk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// Run runs a command in a container until it ends, and returns its exit code. The command's output
// is copied unchanged and without a limit.
func (d *Desk) Run(ctx context.Context, pod, container string, command []string, stdout, stderr io.Writer) (code int, err error) {
	var refusal error
	executor, err := d.executor(pod, url.Values{"container": {container}, "command": command}, &refusal)
	if err != nil {
		return 0, err
	}
	// Without this, the library would also write errors to this process's standard error.
	quiet := klog.NewContext(ctx, logr.Discard())
	err = clearer(executor.StreamWithContext(quiet, remotecommand.StreamOptions{Stdout: stdout, Stderr: stderr}), refusal)
	var exit exec.CodeExitError
	switch {
	case err == nil:
		return 0, nil
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.As(err, &exit):
		return exit.Code, nil
	case apierrors.IsForbidden(err):
		return 0, failed(ErrForbidden, "exec into pod %s: that takes create and get on pods/exec in namespace %s: %s", pod, d.o.Namespace, fault.CleanUpTo(err.Error(), maxStderr))
	case apierrors.IsNotFound(err):
		return 0, failed(err, "pod %s is gone: another one takes its place; ask again", pod)
	case strings.Contains(err.Error(), "container not found"):
		return 0, failed(err, "container %s does not run just now: kubectl -n %s describe pod %s says why", container, d.o.Namespace, pod)
	}
	return 0, failed(err, "exec into pod %s: %s", pod, fault.CleanUpTo(err.Error(), maxStderr))
}

// ConfigFile returns the configuration file that the command line of a container names, or "" if it
// names none.
func (d *Desk) ConfigFile(ctx context.Context, pod, container string) (string, error) {
	var p corev1.Pod
	path := "/api/v1/namespaces/" + d.o.Namespace + "/pods/" + url.PathEscape(pod)
	if err := d.api.Send(ctx, http.MethodGet, path, nil, nil, &p); err != nil {
		return "", fmt.Errorf("read pod %s: %w", pod, err)
	}
	for _, c := range p.Spec.Containers {
		line := append(slices.Clone(c.Command), c.Args...)
		for i, word := range line {
			if file, ok := strings.CutPrefix(word, "--config="); ok && c.Name == container {
				return file, nil
			}
			if word == "--config" && i+1 < len(line) && c.Name == container {
				return line[i+1], nil
			}
		}
	}
	return "", nil
}
