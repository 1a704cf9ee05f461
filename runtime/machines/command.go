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

// afterKill is how long output of a command may stay open when it has ended.
const afterKill = time.Second

// command runs Command, without a shell, in a process group of its own, which ends with it.
func (s Source) command(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	out := &output{most: Longest, full: func() { cancel(errLong) }}
	says := &output{most: 1 << 10}
	c.Stdout, c.Stderr = out, says
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
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // one of the group is there: its number is still its own
		return nil, errors.New("it has ended, and something that it started still holds its output")
	case err != nil:
		return nil, fmt.Errorf("%w: %s", err, fault.Clean(strings.TrimSpace(says.kept.String())))
	}
	return out.kept.Bytes(), nil
}

// output keeps so many bytes. It is nothing but a Writer: the buffer's ReadFrom knows no
// bounds.
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
