package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockFD is the lock on the machine's directory, which this process holds as long as
// anything runs in the machine.
const lockFD = 3

// beInit sets up the machine, starts the command, and reaps children until the command
// has ended. The kernel kills all processes that still run then. encoded is the JSON of a
// setup.
func beInit(encoded string) (status int, err error) {
	unix.CloseOnExec(lockFD)
	var s setup
	if err := json.Unmarshal([]byte(encoded), &s); err != nil {
		return 0, fmt.Errorf("read setup: %w", err)
	}
	wd, err := os.Getwd()
	if err != nil {
		return 0, fmt.Errorf("find working directory: %w", err)
	}
	if err := s.build(); err != nil {
		return 0, err
	}
	name, err := exec.LookPath(s.Command[0])
	if err != nil {
		return 0, fmt.Errorf("find command: %w", err)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	// Not os/exec: its Wait and the one below would reap each other's children.
	pid, err := syscall.ForkExec(name, s.Command, &syscall.ProcAttr{
		Dir:   wd,
		Env:   append(os.Environ(), "EBB_CLUSTER_CGROUP="+Cgroup(s.Dir), "EBB_CLUSTER_NAME="+s.Name),
		Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		for sig := range signals {
			// Fails if the command has just ended; the loop below sees that.
			_ = syscall.Kill(pid, sig.(syscall.Signal))
		}
	}()
	return bury(pid)
}

// bury reaps children until one of them is pid, and returns that one's exit status.
// Orphans become children of this process.
func bury(pid int) (int, error) {
	for {
		var ws syscall.WaitStatus
		dead, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for command: %w", err)
		case dead == pid && ws.Signaled():
			return 128 + int(ws.Signal()), nil
		case dead == pid:
			return ws.ExitStatus(), nil
		}
	}
}
