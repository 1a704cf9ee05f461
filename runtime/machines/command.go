package machines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/ebb-agent/ebb/runtime/kube/fault"
)

// afterKill is how long the output of a command may stay open after the command has ended.
const afterKill = time.Second

// command runs Command without a shell, in a process group of its own. It kills the group if ctx
// ends, if the output is too long, or if Command succeeded but a process of the group still holds
// its output open.
func (s Source) command(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	out := &output{most: Longest, full: func() { cancel(errLong) }}
	stderr := &output{most: 1 << 10}
	c.Stdout, c.Stderr = out, stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = afterKill
	if err := c.Start(); err != nil {
		return nil, err
	}
	err := c.Wait()
	switch {
	case context.Cause(ctx) != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay):
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // the group is alive: its number was not reused
		return nil, errors.New("it has ended, and something that it started still holds its output")
	case err != nil:
		return nil, fmt.Errorf("%w: %s", err, fault.Clean(strings.TrimSpace(stderr.kept.String())))
	}
	return out.kept.Bytes(), nil
}

// output keeps the first most bytes, and calls full if there are more. It does not embed the
// buffer, whose ReadFrom has no limit.
type output struct {
	kept bytes.Buffer
	most int
	full func()
}

func (o *output) Write(p []byte) (int, error) {
	room := o.most - o.kept.Len()
	if room < len(p) && o.full != nil {
		o.full()
	}
	o.kept.Write(p[:min(max(room, 0), len(p))])
	return len(p), nil
}
