package desk

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/util/exec"

	"github.com/ebb-agent/ebb/agent/node/page"
	"github.com/ebb-agent/ebb/runtime/kube/fault"
	kube "github.com/ebb-agent/ebb/runtime/kube/metadata"
)

// Kinds of errors of a node, for errors.Is.
var (
	// ErrForbidden means that the API server does not let this user exec.
	ErrForbidden = kube.ErrForbidden
	// ErrVersion means that agent and command have different versions, and do not understand each
	// other.
	ErrVersion = errors.New("versions differ")
)

// maxValue bounds names in errors and headers.
const maxValue = 256

// failure is why a node was not reached. Its text is complete, without the text of the errors that
// it wraps.
type failure struct {
	text  string
	kinds []error
}

func (f *failure) Error() string   { return f.text }
func (f *failure) Unwrap() []error { return f.kinds }

func failed(err error, format string, args ...any) error {
	return &failure{fmt.Sprintf(format, args...), []error{err}}
}

// explain returns why a command in an agent's pod ended, and how to fix it. It returns nil if the
// command ended without an error.
func (a Agent) explain(ctx context.Context, err error, stderr string) error {
	var exit exec.CodeExitError
	namespace := a.desk.o.Namespace
	switch {
	case err == nil && stderr == "":
		return nil
	case err == nil: // SPDY sometimes loses the exit code, if the kubelet closes first
		return a.exited(exec.CodeExitError{Err: errors.New("exit code not known"), Code: -1}, stderr)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return failed(err, "%v", err)
	case errors.As(err, &exit):
		return a.exited(exit, stderr)
	case apierrors.IsForbidden(err), strings.Contains(err.Error(), " is forbidden: User "): // SPDY: text only
		who := "you"
		if name, err := a.desk.Caller(ctx); err == nil {
			who = "user " + fault.CleanUpTo(name, maxValue)
		}
		return failed(ErrForbidden, "%s may not exec into the agents' pods: that takes create and get on pods/exec in namespace %s, "+
			"which is root on their nodes (docs/security.md has a Role)", who, namespace)
	case apierrors.IsNotFound(err):
		return failed(err, "pod %s is gone: another one takes its place; ask again", a.Pod)
	case strings.Contains(err.Error(), "container not found"):
		return failed(err, "the agent does not run just now: kubectl -n %s describe pod %s says why", namespace, a.Pod)
	}
	text := "exec into pod " + a.Pod + ": " + fault.CleanUpTo(err.Error(), maxStderr)
	if stderr = fault.CleanUpTo(stderr, maxStderr); stderr != "" {
		text += ": " + stderr
	}
	return failed(err, "%s", text)
}

// exited explains why a command that ran has failed.
func (a Agent) exited(exit exec.CodeExitError, stderr string) error {
	message := strings.TrimPrefix(fault.CleanUpTo(stderr, maxStderr), "ebb-agent: ")
	switch {
	case strings.Contains(stderr, `unknown command "dial-stdio"`):
		return failed(ErrVersion, "the agent on node %s is older than this command (%s): it cannot be asked from a desk; upgrade it",
			a.Node, a.desk.o.Version)
	case message == "":
		return failed(exit, "%s dial-stdio in pod %s ended with exit code %d and no word", agentProgram, a.Pod, exit.Code)
	}
	return failed(exit, "%s", message)
}

// muxNotFound is the body with which [http.ServeMux] answers if it has no such page.
const muxNotFound = "404 page not found\n"

// unserved explains that an agent has no such page.
func (a Agent) unserved(path string, answer http.Header) error {
	theirs, mine := answer.Get(page.HeaderVersion), a.desk.o.Version
	path, _, _ = strings.Cut(path, "?")
	text := fmt.Sprintf("the agent on node %s has no %s: it is %s", a.Node, fault.CleanUpTo(path, maxValue), compare(theirs, mine))
	if a.Pod != "" {
		text += fmt.Sprintf("; the command of its version is kubectl -n %s exec %s -c %s -- /usr/bin/ebb", a.desk.o.Namespace, a.Pod, AgentContainer)
	}
	return failed(ErrVersion, "%s", text)
}

// compare describes the agent's version in relation to the command's.
func compare(theirs, mine string) string {
	if theirs == "" {
		return fmt.Sprintf("older than this command (%s)", mine)
	}
	how := "another build than"
	if a, err := version.ParseSemantic(theirs); err == nil {
		if b, err := version.ParseSemantic(mine); err == nil {
			switch {
			case a.LessThan(b):
				how = "older than"
			case b.LessThan(a):
				how = "newer than"
			}
		}
	}
	return fmt.Sprintf("%s, %s this command (%s)", fault.CleanUpTo(theirs, maxValue), how, mine)
}
